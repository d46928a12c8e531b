"""Comments and documents name files that exist."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
_PATH = re.compile(r"(?<![\w./$}<-])(?:[a-z_]+/)+[a-z_0-9]+\.(?:py|pxd|h|java|sh|toml)\b")
_ROOTS = (ROOT, ROOT / "kafkasource", ROOT / "tests", ROOT / "docs", ROOT / "examples" / "pipeline")
_NOT_OURS = re.compile(r"(env|site-packages|pyspark|clients|generate|environment|bin)/|CHANGELOG")


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
