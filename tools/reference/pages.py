"""All pages by their path in ``docs``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.reference.commands_page import commands_page
from tools.reference.decisions_page import decisions_page
from tools.reference.public_api_page import public_api_page
from tools.reference.settings_page import settings_page
from tools.reference.state_machines_page import state_machines_page

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"

_MARK: Final = "<!-- Written by `make docs` from the code. Change that, not this. -->\n\n"


def pages() -> Mapping[str, str]:
    """What each page must say now."""
    texts = {
        "adr/index.md": decisions_page(),
        "reference/commands.md": commands_page(),
        "reference/public-api.md": public_api_page(),
        "reference/settings.md": settings_page(),
        "reference/state-machines.md": state_machines_page(),
    }
    return {name: _MARK + text for name, text in texts.items()}
