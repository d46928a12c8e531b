"""Values of `packRecords` with known records."""

import pyarrow as pa

from kafkasource.kafka.records.arrow.columns import ROW_SCHEMA
from kafkasource.kafka.records.arrow.packed import pack


def packed(values):
    """An Arrow batch of one packed value: these records of partition 0, each its own key, from offset 0 on."""
    count = len(values)
    columns = {"key": values, "value": values, "topic": ["t"] * count, "partition": [0] * count}
    columns |= {"offset": [*range(count)], "timestamp": [0] * count, "timestampType": [0] * count}
    return pack(pa.RecordBatch.from_pydict(columns, ROW_SCHEMA))
