from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.markdown import PAGES, ROOT, anchors, links, name_of


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    assert [target for target in links(page) if not leads_somewhere(page, target)] == []


def leads_somewhere(page: Path, target: str) -> bool:
    parts = urlsplit(target)
    if parts.scheme:
        return parts.scheme in ("https", "mailto")
    path = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
    if not path.exists() or not path.is_relative_to(ROOT):
        return False
    return not parts.fragment or parts.fragment in anchors(path)


def test_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = ROOT / "docs" / "index.md"
    assert leads_somewhere(page, "embedding.md#tables")
    for target in (
        "nowhere.md",
        "embedding.md#chairs",
        "#nowhere",
        "../../elsewhere.md",
        "http://plain.example",
    ):
        assert not leads_somewhere(page, target)
