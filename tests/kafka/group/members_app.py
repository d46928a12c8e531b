"""One consumer of a group, as a process that can be killed: `ours`, `kafka-python` or `confluent`.

    python members_app.py CLIENT SERVERS GROUP TOPIC [ASSIGNOR]      `consumer`: the coordinator assigns (KIP-848)

Says `has PARTITION...` whenever its share changes and `PARTITION OFFSET` of each record, which is committed by then.
"""

import sys

SESSION_MS, HEARTBEAT_MS = 6_000, 500


def say(*words):
    print(*words, flush=True)


def ours(servers, group, topic, assignor):
    from kafkasource.errors import CommitFailed
    from kafkasource.kafka.group.member import GroupMember
    from kafkasource.reader import Reader

    start = {"kafka.group.id": group, "startingOffsets": "committed:earliest"}
    if assignor == "consumer":
        start["kafka.group.protocol"] = "consumer"
        assignor = "range"  # it has no effect
    reader = Reader({"kafka.bootstrap.servers": servers, "subscribe": topic, **start})
    positions = reader.positions()
    member = GroupMember(
        reader.cluster,
        group,
        [topic],
        assignors=[assignor],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    while True:
        changes = member.poll(0.1)
        positions.drop(changes.lost | changes.revoked)
        positions.begin(changes.assigned)
        if changes:
            say("has", *(tp.partition for tp in sorted(positions.offsets)))
        ranges = positions.next_ranges()
        read = [
            (batch.column("partition")[0].as_py(), offset)
            for batch in reader.read(ranges)
            for offset in batch.column("offset").to_pylist()
        ]
        try:
            member.commit(positions.reached(ranges))
        except CommitFailed:
            continue
        for each in read:
            say(*each)


def kafka_python(servers, group, topic, assignor):
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    class Tell(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            pass

        def on_partitions_assigned(self, assigned):
            say("has", *sorted(tp.partition for tp in assigned))

    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([topic], listener=Tell())
    while True:
        read = [(each.partition, each.offset) for rows in consumer.poll(100).values() for each in rows]
        if read:
            consumer.commit()
        for each in read:
            say(*each)


def confluent(servers, group, topic, assignor):
    from confluent_kafka import Consumer

    incremental = assignor in ("cooperative-sticky", "consumer")

    def tell(consumer, assigned):
        if incremental:
            consumer.incremental_assign(assigned)
        else:
            consumer.assign(assigned)
        say("has", *sorted({tp.partition for tp in [*assigned, *consumer.assignment()]}))

    def revoked(consumer, gone):
        if incremental:
            left = {tp.partition for tp in consumer.assignment()} - {tp.partition for tp in gone}
            consumer.incremental_unassign(gone)
            say("has", *sorted(left))
        else:
            consumer.unassign()

    classic = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    if assignor == "consumer":
        protocol = {"group.protocol": "consumer"}
    else:
        protocol = {"partition.assignment.strategy": assignor, **classic}
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **protocol,
        }
    )
    consumer.subscribe([topic], on_assign=tell, on_revoke=revoked)
    while True:
        read = [each for each in consumer.consume(100, 0.1) if not each.error()]
        if read:
            consumer.commit(asynchronous=False)
        for each in read:
            say(each.partition(), each.offset())


if __name__ == "__main__":
    client, servers, group, topic, *rest = sys.argv[1:]
    run = {"ours": ours, "kafka-python": kafka_python, "confluent": confluent}[client]
    run(servers, group, topic, *(rest or ["range"]))
