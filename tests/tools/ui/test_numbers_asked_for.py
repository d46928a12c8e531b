"""Bounds of the numbers in a request of the page."""

import pytest

from kafkasource.tools.ui.parameters import whole_number
from kafkasource.tools.web.handler import RequestRefused


@pytest.mark.parametrize("text", ["0", "501", "-1", "1.0", "x", "²", "9" * 30, "0" * 18 + "1999", "9" * 5_000])
def test_a_number_out_of_bounds_is_refused_however_long_it_is(text):
    with pytest.raises(RequestRefused, match="is not a number from 1 to 500"):
        whole_number({"count": text}, "count", 50, 500)


def test_a_number_within_the_bounds_is_taken_and_the_default_without_one():
    assert [whole_number(given, "count", 50, 500) for given in ({"count": "500"}, {"count": "007"}, {})] == [500, 7, 50]
