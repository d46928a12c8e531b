"""Writes the tables of options into docs/options.md and of metrics into docs/metrics.md, from the tables themselves."""

import re
from pathlib import Path

from kafkasource import options
from kafkasource.metrics.table import markdown_table

ROOT = Path(__file__).parent.parent
PAGE, METRICS = ROOT / "docs" / "options.md", ROOT / "docs" / "metrics.md"

text = PAGE.read_text()
for part in ("source", "sink", "both"):
    block = re.compile(rf"(<!-- options:{part} -->\n).*?(<!-- end -->)", re.DOTALL)
    table = options.markdown_table(part)
    text = block.sub(lambda match, table=table: f"{match[1]}{table}\n{match[2]}", text)
PAGE.write_text(text)

block = re.compile(r"(<!-- metrics -->\n).*?(<!-- end -->)", re.DOTALL)
METRICS.write_text(block.sub(lambda match: f"{match[1]}{markdown_table()}\n{match[2]}", METRICS.read_text()))
