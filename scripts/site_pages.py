"""Builds the site: gathers its pages in build/docs, from which Zensical makes build/site/VERSION. `make docs` runs it.

The navigation in mkdocs.yml has the shelves of the documents; `make readme` makes docs/README.md and llms.txt of it.

The documents link to each other as they lie in the repository, so that they can be read there. On the site a link to a
file that is a page leads to that page. A link to any other file of the repository becomes its name. A link to a file
that does not exist is an error here; Zensical finds links to titles that do not exist. Of a `<picture>` with a dark and
a light file, as GitHub takes it, the site shows the one that fits its own switch.

Each folder of build/site is a version. The pages show those that build/site/versions.json lists.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
SITE = ROOT / "build" / "site"
PAGES = {  # a file of the repository: its page
    "README.md": "index.md",
    "docs/README.md": "documents.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "vulnerabilities.md",
    "lab/benchmarks/README.md": "figures.md",
    "lab/benchmarks/results/full.md": "figures-full.md",
    "lab/benchmarks/results/mirror.md": "figures-mirror.md",
    "lab/benchmarks/results/full.svg": "full.svg",
}
ALIASES = {"lab/benchmarks": "figures.md"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^()\s#]+)(#[^()\s]*)?\)")
_PICTURE = re.compile(r'<picture><source media="[^"]+" srcset="([^"]+)"><img alt="([^"]+)" src="([^"]+)"></picture>')
_CODE = re.compile(r"`[^`\n]+`")
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def _text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


LLMS = """# kafkasource

> Kafka for PySpark without jars: `format("pykafka")` for batch and streaming reads and writes, exactly once, typed
> rows, several clusters, mirrors; and the command `pykafka`.
"""


def shelves() -> dict[str, list[tuple[str, str]]]:
    """The shelves of the navigation, each with titles of pages and their files in the repository.

    A group of pages within a shelf, such as the decisions, is its first page. The list of all pages is left out.
    """
    files = {page: file for file, page in PAGES.items()}
    found: dict[str, list[tuple[str, str]]] = {}
    group = ""
    navigation = _text("mkdocs.yml").partition("\nnav:\n")[2]
    for indent, title, page in re.findall(r"^( +)- (.+):(?: (\S+\.md))?$", navigation, re.MULTILINE):
        if len(indent) == 2:
            pages = found[title] = []
        elif not page:
            group = title
        elif len(indent) == 6 or group:
            file = files.get(page, f"docs/{page}")
            if file != "docs/README.md":
                pages.append((group or title, file))
            group = ""
    return found


def list_of_documents() -> str:
    """The shelves, for docs/README.md."""
    lines = []
    for shelf, pages in shelves().items():
        lines += [f"## {shelf}", "", *(f"- [{title}]({posixpath.relpath(file, 'docs')})" for title, file in pages), ""]
    return "\n".join(lines[:-1])


def llms(address: Callable[[str], str] = str) -> str:
    """llms.txt (llmstxt.org), for programs that read documentation: each page with its first sentence.

    `address`: where the page of a file is.
    """
    lines = [LLMS]
    for shelf, pages in shelves().items():
        lines += [f"## {shelf}", "", *(f"- [{title}]({address(file)}){_begins(file)}" for title, file in pages), ""]
    return "\n".join(lines)


def _begins(file: str) -> str:
    """The first sentence of a page, unless the page begins with a table or a list."""
    paragraph = re.match(r"# [^\n]+\n\n((?:[^\n]+\n)+)", _text(file))
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", paragraph[1] if paragraph else "")
    sentence = re.match(r"[\w`].*?(?:\.(?=\s)|:(?=\s*$))", text, re.DOTALL)
    return f": {' '.join(sentence[0].split()).rstrip('.:')}" if sentence else ""


def on_site(file: str) -> str:
    """Where the site has the page of a file, from the site's first page."""
    page = PAGES.get(file) or file.removeprefix("docs/")
    return "./" if page == "index.md" else f"{page.removesuffix('.md')}/"


def adapted(source: str, page: str) -> str:
    """The text of the file `source` as the page `page`. Raises FileNotFoundError for a link to no file."""

    def linked(match: re.Match[str]) -> str:
        image, text, target, anchor = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match.group()
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (ROOT / file).exists():
            raise FileNotFoundError(f"{source} links to {target}, which does not exist")
        found = (
            PAGES.get(file) or ALIASES.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
        )
        if found is None:
            return f"`{file}`" if text.strip("`") in (target, file) else f"{text} (`{file}`)"
        if text.endswith(".md"):  # a document named by its file, as is usual in the repository
            text = _text(file).partition("\n")[0].removeprefix("# ")
        return f"{image}[{text}]({posixpath.relpath(found, posixpath.dirname(page))}{anchor or ''})"

    def plain(match: re.Match[str]) -> str:
        """In a table, GitHub needs `\\|` for a bar in code. The site's Markdown would show the backslash."""
        return match.group().replace("\\|", "|")

    parts = _FENCED.split(_PICTURE.sub(r"![\2](\3#only-light)![\2](\1#only-dark)", _text(source)))
    return "".join(part if part.startswith("```") else _CODE.sub(plain, _LINK.sub(linked, part)) for part in parts)


def gather(folder: Path) -> None:
    """Make the folder that Zensical reads: docs/ without its README, and the pages of files outside it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=lambda where, _: ["README.md"] if where == str(ROOT / "docs") else [])
    documents = {f"docs/{path.relative_to(folder)}": str(path.relative_to(folder)) for path in folder.rglob("*.md")}
    for file, page in (documents | PAGES).items():
        if page.endswith(".md"):
            (folder / page).write_text(adapted(file, page), encoding="utf-8")
        else:
            shutil.copy(ROOT / file, folder / page)
    (folder / "llms.txt").write_text(llms(on_site), encoding="utf-8")


def build(version: str) -> None:
    """Build the site of a version beside those of others. Ends the program where Zensical finds a fault."""
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"SITE_DIR": f"build/site/{version}"}, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    versions = sorted((path.parent.name for path in SITE.glob("*/index.html")), key=_by_number, reverse=True)
    listed = [{"version": name, "title": name, "aliases": ["latest"][index:]} for index, name in enumerate(versions)]
    (SITE / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    (SITE / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={versions[0]}/">', encoding="utf-8")


def _by_number(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


if __name__ == "__main__":
    gather(ROOT / "build" / "docs")
    build(re.findall(r'"(.+)"', _text("kafkasource/version.py"))[-1])
