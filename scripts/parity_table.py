"""Writes the table of parity into docs/jvm-connector.md, from tests/peers/parity_cases. Run by `make readme`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "peers"))

from parity import markdown_table  # noqa: E402
from parity_cases import CASES  # noqa: E402

DOCS = ROOT / "docs" / "jvm-connector.md"

block = re.compile(r"(<!-- parity -->\n).*?(<!-- end -->)", re.DOTALL)
DOCS.write_text(block.sub(lambda match: f"{match[1]}{markdown_table(CASES)}\n{match[2]}", DOCS.read_text()))
