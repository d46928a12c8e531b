"""The site has every document, and each link leads to a file. `make docs` checks links to titles, too."""

from __future__ import annotations

import contextlib
import importlib
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SITE = runpy.run_path(str(ROOT / "scripts" / "site_pages.py"))


def test_the_navigation_names_every_document_once():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    from_elsewhere = [page for page in SITE["PAGES"].values() if page.endswith(".md")]
    documents = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    pages = {*documents, *from_elsewhere} - {"README.md"}
    assert sorted(named) == sorted(pages)


@pytest.mark.parametrize("guide", [file for _, file in SITE["shelves"]()["Guides"]])
def test_a_guide_has_at_most_900_words_and_ends_with_three_problems(guide):
    text = (ROOT / guide).read_text(encoding="utf-8")
    assert len(text.split()) <= 900
    last = text.rpartition("\n## ")[2]
    assert last.startswith("Common problems\n")
    assert len(re.findall(r"^(?:(?:- )?\*\*|### )", last, re.MULTILINE)) >= 3


def test_each_link_of_a_document_leads_to_a_file(tmp_path):
    SITE["gather"](tmp_path / "docs")
    assert "[Writing](writing.md)" in (tmp_path / "docs" / "index.md").read_text(encoding="utf-8")
    both = "![Records of a topic](ui.png#only-light)![Records of a topic](ui-dark.png#only-dark)"
    assert both in (tmp_path / "docs" / "ui.md").read_text(encoding="utf-8")


def test_a_link_to_no_file_is_an_error(monkeypatch):
    monkeypatch.setitem(SITE["adapted"].__globals__, "_text", lambda file: "[Here](nowhere.md)")
    with pytest.raises(FileNotFoundError, match=r"docs/lag\.md links to nowhere\.md"):
        SITE["adapted"]("docs/lag.md", "lag.md")


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
    assert pages <= named
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    assert text == SITE["llms"](), "make readme renews it"
    said = re.findall(r"^- \[.+\]\(\S+\): (.+)$", text, re.MULTILINE)
    assert len({*said}) == len(said) > 50


def test_the_site_has_the_list_for_programs_with_its_own_addresses(tmp_path):
    SITE["gather"](tmp_path / "docs")
    text = (tmp_path / "docs" / "llms.txt").read_text(encoding="utf-8")
    addresses = re.findall(r"^- \[.+?\]\((\S+)\)", text, re.MULTILINE)
    assert addresses[:2] == ["./", "get-started/"]
    pages = [tmp_path / "docs" / f"{address.strip('./') or 'index'}.md" for address in addresses]
    assert [page for page in pages if not page.exists()] == []


def test_the_documents_begin_with_the_shelves_of_the_navigation():
    assert list(SITE["shelves"]()) == ["Start", "Guides", "Reference", "Maintainers"]
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert f"<!-- shelves -->\n{SITE['list_of_documents']()}\n<!-- end -->" in text, "make readme renews it"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [shelf for shelf in SITE["shelves"]() if f"docs/README.md#{shelf.lower()})" not in readme] == []
