"""Draws what ``make demo`` shows at its end: runs it, and writes ``docs/images/demo.svg``.

Usage: python -m tools.demo_picture
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "demo.svg"
WIDTH = 104
WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # a picture asks nobody for anything


def main() -> None:
    demo = subprocess.run(
        [str(Path(sys.executable).with_name("messenger-jobs")), "demo"],
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(f"\033[1m$ make demo\033[0m\n\n{demo.stdout.rstrip()}"))
        picture = WEB_FONT.sub("", console.export_svg(title="messenger-jobs"))
    PICTURE.parent.mkdir(exist_ok=True)
    # Some programs would take the spaces at the beginning of a line away, and with them the columns.
    PICTURE.write_text(picture.replace("<svg ", '<svg xml:space="preserve" ', 1), encoding="utf-8")


if __name__ == "__main__":
    main()
