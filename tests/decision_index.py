"""The index of the decisions, made of the headings in docs/decisions: `## 70. What was decided`."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "decisions"


def numbers(file: Path) -> list[int]:
    return sorted(int(number) for number in re.findall(r"^## (\d+)\.", file.read_text(encoding="utf-8"), re.M))


def markdown_table() -> str:
    rows = []
    for file in sorted(FOLDER.glob("*.md")):
        title = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# Decisions: ")
        rows.append(f"| [{title}](decisions/{file.name}) | {', '.join(map(str, numbers(file)))} |")
    return "\n".join(["| subject | decisions |", "|---|---|", *rows])
