"""Writes the tables of options into README.md, from kafkasource.options. Run by `make readme`."""

import re
from pathlib import Path

from kafkasource import options

README = Path(__file__).parent.parent / "README.md"

text = README.read_text()
for role in ("source", "sink"):
    block = re.compile(rf"(<!-- options:{role} -->\n).*?(<!-- end -->)", re.DOTALL)
    table = options.markdown_table(role)
    text = block.sub(lambda match, table=table: f"{match[1]}{table}\n{match[2]}", text)
README.write_text(text)
