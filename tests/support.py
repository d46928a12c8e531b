"""What runs with what: the table of docs/support.md, from what `make test` and `make extended` run."""

import re
from pathlib import Path


ROOT = Path(__file__).parent.parent


def markdown_table() -> str:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    spark = sorted(re.findall(r"^PYSPARK\S* \?= (\S+)$", makefile, re.MULTILINE))
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    rows = [
        ("Spark", ", ".join(spark), "`make spark-each`: the whole suite on each"),
        (
            "Python",
            f"{pythons[0]} to {pythons[-1]}",
            "`make floors`: unit tests on the oldest and the newest; Spark tests on two",
        ),
        ("Java", "17, as Spark's; it only runs Spark and the brokers of tests", "every test with Spark"),
        ("Apache Kafka", "0.8.2.2, 0.9.0.1, 0.10.2.2, 0.11.0.3, 3.9.2, 4.3.1", "`make broker`, `make extended`"),
        ("platform", "Linux on x86-64, glibc", "everything; other platforms build from the source archive"),
    ]
    lines = ["| | runs in tests | where |", "|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])
