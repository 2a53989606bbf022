"""Writes the pages; says which of them have changed."""

from __future__ import annotations

from tools.reference.pages import DOCS, pages


def main() -> None:
    for name, text in pages().items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"docs/{name} is written anew")


if __name__ == "__main__":
    main()
