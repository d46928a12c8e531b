"""The site has every document, and its navigation names no file that is missing. `make docs` checks all links."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_navigation_names_every_document_once():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    hook = (ROOT / "scripts" / "site_pages.py").read_text(encoding="utf-8")
    from_elsewhere = dict(re.findall(r'^    "(\S+\.md)": "(\S+\.md)",$', hook, re.MULTILINE))
    assert all((ROOT / file).exists() for file in from_elsewhere)
    documents = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    pages = {*documents, *from_elsewhere.values()} - {"README.md"}
    assert sorted(named) == sorted(pages)
