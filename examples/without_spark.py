"""Write records, read them back and look at the topic, in this process: no Spark, no Java.

python examples/without_spark.py localhost:9092 events
"""

import sys

import pyarrow as pa

from kafkasource.kafka import ClientConfig, Cluster
from kafkasource.reader import Reader
from kafkasource.writer import Writer

if len(sys.argv) != 3:
    sys.exit("usage: python without_spark.py <bootstrap-servers> <topic>")
servers, topic = sys.argv[1:]
cluster = {"kafka.bootstrap.servers": servers}

orders = pa.table(
    {
        "key": ["ada", "bob", "ada"],
        "value": ['{"n": 1}', '{"n": 2}', '{"n": 3}'],
    }
)
with Writer({**cluster, "topic": topic, "createTopic": "partitions=2", "kafka.compression.type": "lz4"}) as writer:
    writer.write(orders)
for partition, written in writer.written.items():
    print(f"wrote {written.records} records to {partition}, the last at offset {written.last_offset}")

with Reader({**cluster, "subscribe": topic}) as reader:
    for batch in reader:  # pyarrow.RecordBatch; batch.to_pandas() where pandas is installed
        for record in batch.select(["key", "value", "partition", "offset"]).to_pylist():
            print(record)

with Cluster(ClientConfig.of(servers)) as kafka:
    leaders = {
        partition: each.leader_id for partition, each in kafka.topics.describe([topic])[topic].partitions.items()
    }
    print(f"leaders of {topic}: {leaders}")
    print(f"groups: {[group.group for group in kafka.groups.list()]}")
