"""docs/spark-releases.md says what the tests of each release are chosen by."""

from __future__ import annotations

import re
from pathlib import Path

import spark_releases
import support

TESTS = Path(__file__).parent


def test_the_documents_table_of_releases_is_the_one_that_chooses_the_tests():
    shown = f"<!-- spark-releases -->\n{spark_releases.markdown_table()}\n<!-- end -->"
    assert shown in (TESTS.parent / "docs/spark-releases.md").read_text(), "make readme renews it"


def test_each_row_names_files_of_tests_that_exist():
    for row in spark_releases.ROWS.values():
        folder = row.held_by.partition("/")[0]
        for name in re.findall(r"test_\w+\.py", row.held_by):
            assert (TESTS / folder / name).is_file(), row


def test_the_table_of_what_runs_with_what_is_what_the_tests_run():
    page = (TESTS.parent / "docs/support.md").read_text()
    for name, table in (("support", support.markdown_table()), ("brokers", support.table_of_brokers())):
        assert f"<!-- {name} -->\n{table}\n<!-- end -->" in page, "make readme renews it"
