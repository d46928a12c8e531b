"""What Spark finds when it looks for formats by the names of packages, in a Python of its own choice."""

import subprocess
import sys

from child_environment import with_package

LOOK = """
import sys
{first}
import pyspark_pykafka
print(getattr(pyspark_pykafka, "DefaultSource", None))
"""


def look(first=""):
    command = [sys.executable, "-c", LOOK.format(first=first)]
    return subprocess.run(command, env=with_package(), capture_output=True, text=True, check=True, timeout=60)


def test_a_python_that_can_run_the_source_offers_it():
    found = look()
    assert found.stdout.strip() == "<class 'kafkasource.datasource.KafkaDataSource'>"
    assert found.stderr == ""


def test_a_python_without_pyarrow_does_not_offer_the_source_and_says_so_in_a_line():
    """Spark 4.0 keeps the Python of a source that it has found, whatever `kafkasource.register` says."""
    found = look("sys.modules['pyarrow'] = None  # as if it were not installed")
    assert found.stdout.strip() == "None"
    (line,) = found.stderr.splitlines()
    assert f"{sys.executable} has no pyarrow" in line
    assert "kafkasource.register(spark)" in line
