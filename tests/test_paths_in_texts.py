"""Comments and documents name files and modules that exist."""

import ast
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
        for node in ast.parse(text).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            has[module.stem] |= {getattr(each, "name", getattr(each, "id", "")) for each in (node, *targets)}
            has[module.stem] |= {alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)}
    gone = []
    for file, text in texts.items():
        for name in _DOTTED.findall(text):
            parts = name.split(".")
            ours = parts[0] in has and parts[0] not in sys.stdlib_module_names and not _NO_MODULE.match(name)
            if ours and not {name, f"kafka.{name}"} & BY_KEY.keys():
                gone += [
                    f"{file}: {name}" for parent, child in pairwise(parts) if child not in has.get(parent, {child})
                ]
    assert gone == []
