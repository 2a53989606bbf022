"""The decisions, in the order in which they were made."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ADRS: Final = Path(__file__).resolve().parents[2] / "docs" / "adr"

_HEAD: Final = """\
# Decisions

What the code cannot say: context, decision, consequences, how it is confirmed. A page each at most.
"""

_TREE: Final = """
```{toctree}
:hidden:
:glob:

0*
```
"""


def decisions_page() -> str:
    """The page."""
    entries = [f"- [{_title(path)}]({path.name})" for path in sorted(ADRS.glob("[0-9]*.md"))]
    return "\n".join([_HEAD, *entries, _TREE])


def _title(path: Path) -> str:
    """Its heading, number and all; an opening number in a link's text would make a list of it."""
    heading = path.read_text(encoding="utf-8").splitlines()[0]
    return heading.removeprefix("# ")
