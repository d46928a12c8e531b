"""What ran, in ran.json, of which tables of docs/ are made. `make servers` and `make releases` write it.

python tests/ran.py Spark 4.2.1     adds a release on which each kind of job ran
python tests/ran.py environments    which Python and which Java the environments of `make test` have
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")

Rows = dict[str, dict[str, str]]
"""By server or release, then by check: `works`, or the error."""


def results() -> dict[str, Rows]:
    """By kind: servers, releases (of Kafka), Spark, Java, environments."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def record(kind: str, name: str, check: str, said: str = "works") -> None:
    found = results()
    found[kind].setdefault(name, {})[check] = said
    kinds = []
    for each, rows in found.items():
        lines = ",\n".join(f"  {json.dumps(row)}: {json.dumps(cells)}" for row, cells in rows.items())
        kinds.append(f" {json.dumps(each)}: {{\n{lines}\n }}")
    FILE.write_text("{\n" + ",\n".join(kinds) + "\n}\n", encoding="utf-8")


def by_release(names: Iterable[str]) -> list[str]:
    return sorted(set(names), key=lambda name: [int(part) for part in name.split(".")])


def record_environments() -> None:
    home = os.environ.get("JAVA_HOME")
    said = subprocess.run(
        [f"{home}/bin/java" if home else "java", "-version"], capture_output=True, text=True, check=True
    )
    java = re.findall(r'version "(\d+)', said.stderr)[0]
    show = "import sys; print('{}.{}'.format(*sys.version_info))"
    for folder in (".venv", ".venv-newest"):
        python = FILE.parents[1] / folder / "bin" / "python"
        record("environments", folder, "Python", subprocess.check_output([python, "-c", show], text=True).strip())
        record("environments", folder, "Java", java)


if __name__ == "__main__":
    if sys.argv[1:] == ["environments"]:
        record_environments()
    else:
        _, kind_of_release, release = sys.argv
        record(kind_of_release, release, "each kind of job")
