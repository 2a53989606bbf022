"""Where an exception came from, without what it said."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

_DEEPEST: Final = 8


def frames(error: BaseException) -> list[str]:
    """The innermost places the exception passed, as ``file:line function``, outermost first.

    Messages and values are left out on purpose: they may quote a row.
    """
    return [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)[-_DEEPEST:]
    ]
