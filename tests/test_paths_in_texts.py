"""Comments and documents name files and modules that exist."""

import re
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from kafkasource.options.table import BY_KEY

ROOT = Path(__file__).parent.parent
_PATH = re.compile(r"(?<![\w./$}<-])(?:[a-z_]+/)+[a-z_0-9]+\.(?:py|pxd|h|java|sh|toml)\b")
_ROOTS = (ROOT, ROOT / "kafkasource", ROOT / "tests", ROOT / "docs", ROOT / "examples" / "pipeline")
_NOT_OURS = re.compile(r"(env|site-packages|pyspark|clients|generate|environment|bin)/|CHANGELOG")
_DOTTED = re.compile(r"`(?:kafkasource\.)?([a-z_]+(?:\.[A-Za-z]\w*)+)`")
_TOP_LEVEL = re.compile(
    r"^(?:def |class |    (?=\w+,$))?(\w+)", re.MULTILINE
)  # and what an import of several lines has
_NO_MODULE = re.compile(
    r"(spark|kafkasource)\.|.*\.(ms|minutes|size|rack|version|protocol|origin|url|properties|json|lock)$"
)


def test_each_file_that_a_comment_or_a_document_names_exists():
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "Makefile"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    gone = []
    for name in listed.stdout.split():
        file = ROOT / name
        if name == "CHANGELOG.md" or not file.exists():
            continue
        for path in _PATH.findall(file.read_text(encoding="utf-8")):
            if not _NOT_OURS.match(path) and not any((root / path).exists() for root in (*_ROOTS, file.parent)):
                gone.append(f"{name}: {path}")
    assert gone == []


def test_each_module_that_a_comment_names_exists_and_has_what_it_names():
    """`writer.task`: some module or package `writer` has a module, or a name, `task`."""
    texts = {file: file.read_text(encoding="utf-8") for file in (ROOT / "kafkasource").rglob("*.py")}
    has: dict[str, set[str]] = defaultdict(set)
    for file, text in texts.items():
        module = file.parent if file.name == "__init__.py" else file
        has[module.parent.name].add(module.stem)
        has[module.stem] |= {*_TOP_LEVEL.findall(text)}
    gone = []
    for file, text in texts.items():
        for name in _DOTTED.findall(text):
            first, *_ = parts = name.split(".")
            other = (
                first in sys.stdlib_module_names or _NO_MODULE.match(name) or {name, f"kafka.{name}"} & BY_KEY.keys()
            )
            if first in has and not other and any(child not in has.get(of, child) for of, child in pairwise(parts)):
                gone.append(f"{file}: {name}")
    assert gone == []
