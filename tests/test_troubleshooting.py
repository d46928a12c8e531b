"""docs/troubleshooting.md is found by the words of errors: its headings are words that Spark or the package prints."""

from __future__ import annotations

import ast
import re
import zipfile
from functools import cache
from pathlib import Path

import pyspark
import pytest

from kafkasource.errors import TABLE

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## `(.+)`$", PAGE, re.MULTILINE)
JARS = Path(pyspark.__file__).parent / "jars"
OF_SPARK = {  # the file in its jars that has the words
    "Python worker failed to connect back": ("spark-core_", "org/apache/spark/api/python/PythonWorkerFactory.class"),
    "DATA_SOURCE_NOT_FOUND": ("spark-common-utils_", "error/error-conditions.json"),
    "CONCURRENT_STREAM_LOG_UPDATE": ("spark-common-utils_", "error/error-conditions.json"),
    "Cannot safely cast": ("spark-common-utils_", "error/error-conditions.json"),
    "UNSUPPORTED_DATA_SOURCE_SAVE_MODE": ("spark-common-utils_", "error/error-conditions.json"),
    "does not support Trigger.AvailableNow": ("spark-catalyst_", "org/apache/spark/sql/internal/SQLConf$.class"),
}


@cache
def texts_of_the_package() -> str:
    """Every text in the code, as it is printed but for what stands in braces."""
    found = []
    for path in (ROOT / "kafkasource").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


@pytest.mark.parametrize("heading", HEADINGS)
def test_each_heading_is_in_an_error_that_somebody_prints(heading):
    if heading in OF_SPARK:
        jar, member = OF_SPARK[heading]
        (path,) = JARS.glob(f"{jar}2.13-*.jar")
        with zipfile.ZipFile(path) as archive:
            assert heading.encode() in archive.read(member)
    else:
        assert heading in texts_of_the_package() or heading in {row.name for row in TABLE.values()}


def test_each_condition_of_data_loss_is_explained():
    from kafkasource.kafka.fetch import loss

    conditions = {value for name, value in vars(loss).items() if name.isupper() and name == value}
    assert {name for name in conditions if f"`{name}`" not in PAGE} == set()


def test_errors_that_need_the_page_name_it():
    naming = {text.split(" ")[0] for text in texts_of_the_package().split("\n") if "docs/troubleshooting.md" in text}
    assert len(naming) >= 5
