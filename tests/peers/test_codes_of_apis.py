"""Each error code, once, in an answer to each API: this client goes on after those that docs/error-codes.md says.

What Java's clients and librdkafka do was recorded (`codes_of_apis.py`).
"""

import json
from pathlib import Path

import codes_of_apis
import pytest
from codes_of_apis import CASES, CODES, OURS, RECORD, ours


@pytest.mark.parametrize("name", CASES)
def test_this_client_goes_on_after_the_codes_of_its_table_and_ends_after_the_others(name):
    assert [code for code in CODES if ours(name, code)] == OURS[name]


@pytest.mark.parametrize("name", [name for name in CASES if name != "ListOffsets"])
def test_no_code_that_java_and_librdkafka_both_pass_over_ends_a_job_here(name):
    """ListOffsets: the driver asks again, `fetchOffset.numRetries` times."""
    recorded = json.loads(RECORD.read_text())
    both = set(recorded["Java"][name]) & set(recorded["librdkafka"][name])
    assert both <= set(OURS[name])


def test_the_document_has_the_table():
    text = (Path(__file__).parents[2] / "docs" / "error-codes.md").read_text()
    assert f"<!-- codes -->\n{codes_of_apis.markdown_table()}\n<!-- end -->" in text


@pytest.mark.broker
@pytest.mark.peers
@pytest.mark.extended
def test_javas_clients_do_what_was_recorded():
    assert codes_of_apis.passed_by_java() == json.loads(RECORD.read_text())["Java"]
