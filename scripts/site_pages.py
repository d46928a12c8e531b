"""A hook of mkdocs: makes pages of files outside docs/, and adapts links to files.

The documents link to each other as they lie in the repository, so that they can be read there. On the site a link to a
file that is a page leads to that page. A link to any other file of the repository becomes its name. A link to a file
that does not exist stays, and mkdocs, which is strict, fails for it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = {  # a file of the repository: its page
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "vulnerabilities.md",
    "lab/benchmarks/README.md": "figures.md",
    "lab/benchmarks/results/full.md": "figures-full.md",
    "lab/benchmarks/results/mirror.md": "figures-mirror.md",
    "lab/benchmarks/results/full.svg": "full.svg",
}
FILES = {page: file for file, page in PAGES.items()}
ALIASES = {"docs/README.md": "index.md", "lab/benchmarks": "figures.md"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^()\s#]+)(#[^()\s]*)?\)")
_CODE = re.compile(r"`[^`\n]+`")
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def _title(file: str) -> str:
    first, _, _ = (
        (ROOT / file).read_text(encoding="utf-8").partition("\n") if (ROOT / file).exists() else (file, "", "")
    )
    return first.removeprefix("# ")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for file, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    source = FILES.get(here, f"docs/{here}")

    def linked(match: re.Match[str]) -> str:
        image, text, target, anchor = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match.group()
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        found = (
            PAGES.get(file) or ALIASES.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
        )
        if found is None and (ROOT / file).exists():
            return f"`{file}`" if text.strip("`") in (target, file) else f"{text} (`{file}`)"
        if found is None:
            return match.group()
        if text.endswith(".md"):  # a document named by its file, as is usual in the repository
            text = _title(FILES.get(found, f"docs/{found}"))
        return f"{image}[{text}]({posixpath.relpath(found, posixpath.dirname(here))}{anchor or ''})"

    def plain(match: re.Match[str]) -> str:
        """In a table, GitHub needs `\\|` for a bar in code. The site's Markdown would show the backslash."""
        return match.group().replace("\\|", "|")

    parts = _FENCED.split(markdown)
    return "".join(part if part.startswith("```") else _CODE.sub(plain, _LINK.sub(linked, part)) for part in parts)
