"""One module knows what the releases of Spark lack; all others import from it."""

import re
from pathlib import Path

import kafkasource

PACKAGE = Path(kafkasource.__file__).parent
OTHERS = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "spark" / "releases.py"]
# The doctor reports on a pyspark that may not even import.
ASKS_THE_INSTALLED_VERSION = PACKAGE / "tools" / "cli" / "doctor" / "machine.py"


def test_no_other_module_imports_a_class_that_a_release_of_spark_lacks():
    lacking = re.compile(
        r"pyspark\.sql\.streaming\.datasource|from pyspark\.sql\.datasource import "
        r"(\([^)]*|[^\n(]*)\b(DataSourceStreamArrowWriter|EqualNullSafe|Filter)"
    )
    assert [path for path in OTHERS if lacking.search(path.read_text())] == []


def test_no_other_module_asks_for_the_version_of_spark():
    asks = re.compile(r"pyspark\.__version__|from pyspark import .*__version__|spark\.version\b|version\(.pyspark")
    assert [path for path in OTHERS if asks.search(path.read_text())] == [ASKS_THE_INSTALLED_VERSION]
