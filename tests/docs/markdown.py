"""The repository's pages, their links, their headings and their code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@frozen
class CodeBlock:
    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def code_blocks(page: Path, *languages: str) -> list[CodeBlock]:
    return [
        CodeBlock(name_of(page), token.map[0] + 1, token.info, token.content)
        for token in tokens(page)
        if token.type == "fence" and token.map is not None and token.info in languages
    ]


def links(page: Path) -> Iterator[str]:
    """Targets of links and pictures, as written."""
    for token in tokens(page):
        for child in token.children or ():
            target = child.attrs.get("href", child.attrs.get("src"))
            if isinstance(target, str):
                yield target
        if token.type == "fence" and token.info.startswith(("{literalinclude}", "{include}")):
            yield token.info.split()[1]


def anchors(page: Path) -> set[str]:
    """The headings' names in links, as the common hosts of repositories make them."""
    opened = False
    seen: Counter[str] = Counter()
    names: set[str] = set()
    for token in tokens(page):
        if opened:
            slug = re.sub(r"[^\w\- ]", "", token.content.lower()).replace(" ", "-")
            names.add(slug if not seen[slug] else f"{slug}-{seen[slug]}")
            seen[slug] += 1
        opened = token.type == "heading_open"
    return names


def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))
