"""What runs with what: the table of docs/support.md, from what `make test` and `make extended` run, and ran.json."""

import re
from pathlib import Path

import ran

ROOT = Path(__file__).parent.parent
OLDEST = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3")  # have tests of their own


def markdown_table() -> str:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = ran.results()
    spark = ran.by_release([*re.findall(r"^PYSPARK\S* \?= (\S+)$", makefile, re.MULTILINE), *found["Spark"]])
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    rows = [
        ("Spark", ", ".join(spark), "`make spark-each`: the whole suite; `make releases`: each kind of job"),
        (
            "Python",
            f"{pythons[0]} to {pythons[-1]}",
            "`make floors`: unit tests on the oldest and the newest; Spark tests on two",
        ),
        (
            "Java",
            ", ".join(["17", *ran.by_release(found["Java"])]),
            "17: every test with Spark; `make releases`: each kind of job",
        ),
        ("Apache Kafka", ", ".join([*OLDEST, *found["releases"]]), "`make broker`, `make extended`, `make releases`"),
        ("platform", "Linux on x86-64, glibc", "everything; other platforms build from the source archive"),
    ]
    lines = ["| | runs in tests | where |", "|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])
