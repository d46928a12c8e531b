"""Writes the tables of the documentation that are made of tables of the code and of the tests. Run by `make readme`.

A table's place in its document is between `<!-- NAME -->` and `<!-- end -->`.
"""

import sys
from pathlib import Path

from kafkasource.metrics import table as metrics
from kafkasource.options import markdown as options_tables

ROOT = Path(__file__).parent.parent
sys.path[:0] = [
    str(ROOT / "tests"),
    *(str(ROOT / "tests" / name) for name in ("peers", "kafka/security", "servers", "sink", "source")),
]

import codes_of_apis  # noqa: E402
import decision_index  # noqa: E402
import parity  # noqa: E402
import rights  # noqa: E402
import rooms  # noqa: E402
import server_table  # noqa: E402
import site_pages  # noqa: E402
import spark_releases  # noqa: E402
import support  # noqa: E402
from parity_cases import READS, WRITES  # noqa: E402

TABLES = [
    *(
        (page, f"options:{section}", options_tables.markdown_table(section))
        for page, sections in options_tables.DOCUMENTS.items()
        for section in sections
    ),
    ("README.md", "shelves", site_pages.list_of_documents()),
    ("metrics-table.md", "metrics", metrics.markdown_table()),
    ("jvm-connector.md", "parity", parity.markdown_table(READS)),
    ("jvm-connector-writes.md", "parity-writes", parity.markdown_table(WRITES)),
    ("error-codes.md", "codes", codes_of_apis.markdown_table()),
    ("rights.md", "rights", rights.markdown_table()),
    ("spark-releases.md", "spark-releases", spark_releases.markdown_table()),
    ("support.md", "support", support.markdown_table()),
    ("support.md", "brokers", support.table_of_brokers()),
    ("servers.md", "servers", server_table.markdown_table()),
    ("decisions.md", "decisions", decision_index.markdown_table()),
    ("architecture.md", "rooms", rooms.markdown_table()),
    ("architecture.md", "layers", rooms.drawing()),
]

(ROOT / "llms.txt").write_text(site_pages.llms())

for document, name, table in TABLES:
    path = ROOT / "docs" / document
    before, begin, rest = path.read_text().partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not end:
        sys.exit(f"{path} has no place for the table {name}")
    path.write_text(f"{before}{begin}{table}\n{end}{after}")
