"""The Python blocks of README and docs/ run as they are written. test_recipes.py runs those of recipes.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]
APP = Path(__file__).with_name("documents_app.py")
ROOT = Path(__file__).parent.parent.parent


def test_the_blocks_of_the_documents_run_as_written(kafka_broker, tmp_path):
    documents = [
        str(path.relative_to(ROOT))
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        if path.name != "recipes.md" and "```python\n" in path.read_text(encoding="utf-8")
    ]
    command = [sys.executable, str(APP), kafka_broker.bootstrap_servers, str(tmp_path), *documents]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stdout, done.stdout
    assert {line.split()[-1].split(":")[0] for line in done.stdout.splitlines() if ".md:" in line} == set(documents)
    assert "ran README.md:" in done.stdout
