"""Each decision has one number, stands in the index, and is there where a text names it."""

import re
import subprocess
from collections import Counter

import decision_index

ROOT = decision_index.FOLDER.parents[1]


def test_the_index_of_decisions_has_every_heading():
    text = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    assert f"<!-- decisions -->\n{decision_index.markdown_table()}\n<!-- end -->" in text, "make readme renews it"


def test_each_decision_that_a_text_names_exists_once():
    count = Counter(number for file in decision_index.FOLDER.glob("*.md") for number in decision_index.numbers(file))
    assert [number for number, times in count.items() if times > 1] == []
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in listed.stdout.split() if (ROOT / name).exists()]
    named = {
        (file.relative_to(ROOT).as_posix(), int(number))
        for file in files
        for number in re.findall(r"\b[Dd]ecision (\d+)\b", file.read_text(encoding="utf-8"))
    }
    assert named
    assert sorted((name, number) for name, number in named if number not in count) == []
