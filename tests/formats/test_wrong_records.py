"""Wrong records among right ones: no crash, no row moved, memory bounded. `make fuzz` runs the same for long."""

from __future__ import annotations

import contextlib
import os
import random

import lying_avro

from kafkasource.errors import SchemaError

INPUTS = int(os.environ.get("KAFKASOURCE_AVRO_INPUTS", 100))


def test_wrong_records_are_null_and_the_others_stay_what_and_where_they_are():
    taken = refused = 0
    for number in range(INPUTS):
        try:
            if lying_avro.decode(random.Random(number)):
                taken += 1
            else:
                refused += 1
        except SchemaError:
            pass
    assert taken > INPUTS // 20
    assert refused > INPUTS // 4


def test_damaged_schemas_are_taken_or_an_error_of_ours():
    taken = 0
    for number in range(INPUTS):
        with contextlib.suppress(SchemaError):
            taken += lying_avro.read_schema(random.Random(number))
    assert 0 < taken < INPUTS
