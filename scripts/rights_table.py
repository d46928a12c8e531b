"""Writes the table of rights into docs/security.md, from tests/security/rights.py. Run by `make readme`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "security"))

from rights import markdown_table  # noqa: E402

DOCS = ROOT / "docs" / "security.md"

block = re.compile(r"(<!-- rights -->\n).*?(<!-- end -->)", re.DOTALL)
DOCS.write_text(block.sub(lambda match: f"{match[1]}{markdown_table()}\n{match[2]}", DOCS.read_text()))
