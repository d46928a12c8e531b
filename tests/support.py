"""What runs with what: the tables of docs/support.md, from the Makefile, pyproject.toml and ran.json."""

import re
from pathlib import Path

import ran

ROOT = Path(__file__).parent.parent
OLDEST = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3")  # have tests of their own


def markdown_table() -> str:
    """Each Spark with the Python and the Java that it runs on: the whole suite, or each kind of job."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = ran.results()
    release = dict(re.findall(r"^(PYSPARK\S*) \?= (\S+)$", makefile, re.MULTILINE))
    usual, newest = (found["environments"][folder] for folder in (".venv", ".venv-newest"))
    rows = []
    for variable, spark in release.items():
        own = newest if variable == "PYSPARK_NEWEST" else usual
        suite = "test" if variable == "PYSPARK" else f"spark-{spark.rpartition('.')[0]}"
        kinds = "test" if variable in ("PYSPARK_NEWEST", "PYSPARK_4.0") else ""  # its part `spark-kinds`
        rows.append((spark, own["Python"], own["Java"], suite, kinds))
    rows += [(spark, usual["Python"], usual["Java"], "", "releases") for spark in found["Spark"]]
    rows += [(release["PYSPARK"], usual["Python"], java, "", "releases") for java in found["Java"]]
    rows.sort(key=lambda row: [[int(part) for part in cell.split(".")] for cell in row[:3]])
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    others = [
        ("none: unit tests", f"{pythons[0]}, oldest dependencies", "", "`make floors`", ""),
        ("none: unit tests", f"{pythons[-1]}, newest dependencies", "", "`make floors`", ""),
        *(("none", python, "", "no tests", "") for python in pythons[1:-1] if python not in {row[1] for row in rows}),
    ]
    lines = ["| Spark | Python | Java | the whole suite | each kind of job |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join([*row[:3], *(cell and f'`make {cell}`' for cell in row[3:])])} |" for row in rows]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in others])


def table_of_brokers() -> str:
    """The releases of Kafka, by what runs on them."""
    found = ran.results()["releases"]
    checks = list(dict.fromkeys(check for row in found.values() for check in row))
    rows = [
        (", ".join(OLDEST), "tests of their own", "`make broker`, `make extended`"),
        (", ".join(found), ", ".join(checks), "`make releases`"),
    ]
    lines = ["| Apache Kafka | what runs | command |", "|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])
