"""Prints what the package and some of its extras require: requirements.py EXTRA,EXTRA... For pip install -r."""

import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
print("\n".join(project["dependencies"]))
for extra in sys.argv[1].split(","):
    print("\n".join(project["optional-dependencies"][extra]))
