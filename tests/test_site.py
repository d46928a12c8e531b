"""The site has every document, and its navigation names no file that is missing. `make docs` checks all links."""

from __future__ import annotations

import contextlib
import importlib
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


NO_NAMES_OF_OURS = {"kafkasource.zip", "kafkasource.token"}  # a file of pykafka bundle, and what a page keeps


def test_the_names_that_documents_give_are_there():
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for name in set(re.findall(r"\bkafkasource(?:\.[A-Za-z_]\w*)+", document.read_text(encoding="utf-8"))):
            assert name in NO_NAMES_OF_OURS or _is_there(name), f"{document.name}: {name}"


def _is_there(name: str) -> bool:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        with contextlib.suppress(ImportError):
            found: object = importlib.import_module(".".join(parts[:count]))
            for part in parts[count:]:
                found = getattr(found, part, None)
            return found is not None
    return False


def test_programs_that_read_documentation_find_every_page():
    named = set(re.findall(r"\(docs/(\S+\.md)\)", (ROOT / "llms.txt").read_text(encoding="utf-8")))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= named, "a row in docs/README.md, then make readme"
