"""Writes the tables of options into README.md and of metrics into docs/metrics.md, from the tables themselves."""

import re
from pathlib import Path

from kafkasource import options
from kafkasource.metrics.table import markdown_table

ROOT = Path(__file__).parent.parent
README, METRICS = ROOT / "README.md", ROOT / "docs" / "metrics.md"

text = README.read_text()
for role in ("source", "sink"):
    block = re.compile(rf"(<!-- options:{role} -->\n).*?(<!-- end -->)", re.DOTALL)
    table = options.markdown_table(role)
    text = block.sub(lambda match, table=table: f"{match[1]}{table}\n{match[2]}", text)
README.write_text(text)

block = re.compile(r"(<!-- metrics -->\n).*?(<!-- end -->)", re.DOTALL)
METRICS.write_text(block.sub(lambda match: f"{match[1]}{markdown_table()}\n{match[2]}", METRICS.read_text()))
