"""docs/rights.md shows the rights that the tests prove."""

from pathlib import Path

from rights import JOBS, markdown_table

DOCS = Path(__file__).parents[3] / "docs" / "rights.md"


def test_the_docs_have_the_table_of_rights_as_it_is():
    """`make readme` writes it."""
    assert f"<!-- rights -->\n{markdown_table()}\n<!-- end -->" in DOCS.read_text()


def test_each_job_is_there_once():
    assert len({job.name for job in JOBS}) == len({job.run for job in JOBS}) == len(JOBS)
