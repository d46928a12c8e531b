"""The commands on a real Kafka, as a user types them. Another client writes and reads the records, too."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from confluent_producer import ordered_producer

from kafkasource.kafka import ClientConfig, Cluster, TopicPartition
from kafkasource.kafka.protocol.apis import CONSUMER_GROUP_DESCRIBE
from kafkasource.mirror.files import LocalFiles, save
from kafkasource.mirror.positions import FlowRules, MirrorReader, PositionRecord, SourceRules
from kafkasource.tools.cli import main

pytestmark = pytest.mark.broker
EXAMPLE = Path(__file__).parents[3] / "examples" / "without_spark.py"


@pytest.fixture
def command(kafka_broker, capfdbinary):
    """Run a command in this process: exit code, lines of stdout, stderr."""

    def run(*words):
        code = main([*words, "-b", kafka_broker.bootstrap_servers])
        out, err = capfdbinary.readouterr()
        return code, out.decode().splitlines(), err.decode()

    return run


@pytest.fixture
def as_json(command):
    def run(*words):
        code, out, err = command(*words, "--json")
        assert code == 0, err
        return json.loads("\n".join(out))

    return run


@pytest.fixture
def typed(kafka_broker):
    """Run a command in a process of its own."""

    def start(*words):
        return subprocess.Popen(
            [sys.executable, "-m", "kafkasource", *words, "-b", kafka_broker.bootstrap_servers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    return start


@pytest.fixture
def admin(kafka_broker):
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as admin:
        yield admin


@pytest.fixture
def produce(kafka_broker):
    """confluent-kafka writes values to partitions: `produce(topic, {0: [b"a"]})`."""
    producer = ordered_producer(kafka_broker.bootstrap_servers)

    def write(topic, values, **more):
        for partition, partition_values in values.items():
            for value in partition_values:
                producer.produce(topic, value, partition=partition, **more)
        assert producer.flush(30) == 0

    return write


@pytest.fixture
def consumed(kafka_broker):
    """Records that kafka-python reads, by partition and offset."""
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Theirs

    def read(topic, partitions, count):
        consumer = KafkaConsumer(
            bootstrap_servers=kafka_broker.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=15_000
        )
        try:
            consumer.assign([Theirs(topic, partition) for partition in range(partitions)])
            return sorted(
                (
                    (record.partition, record.offset, record.key, record.value, record.headers)
                    for record in islice(consumer, count)
                ),
                key=lambda record: record[:2],
            )
        finally:
            consumer.close()

    return read


@pytest.fixture
def group():
    return f"cli-{uuid.uuid4().hex[:8]}"


def test_a_topic_is_made_shown_and_deleted(command, as_json):
    name = f"cli-{uuid.uuid4().hex[:8]}"
    assert command("topics", "create", name, "-p", "3")[:2] == (0, [f"created {name} with 3 partitions"])
    code, _, err = command("topics", "create", name)
    assert (code, "exists already" in err, err.count("\n")) == (1, True, 1)
    assert command("topics", "create", name, "--if-missing")[0] == 0
    assert [
        (topic["partitions"], topic["health"]) for topic in as_json("topics", "list") if topic["topic"] == name
    ] == [(3, "ok")]
    code, _, err = command("topics", "describe", f"{name}x")
    assert (code, f"no topic '{name}x' (did you mean {name!r}?)" in err, err.count("\n")) == (1, True, 1)
    code, _, err = command("topics", "delete", name)  # nobody to ask: stdin is not a terminal
    assert (code, "give --yes" in err) == (1, True)
    assert command("topics", "delete", name, "--yes")[:2] == (0, [f"deleted {name}"])
    code, _, err = command("topics", "describe", name)
    hint = r"( \(did you mean '[^']+'\?\))?"  # another test's topic may be similar
    assert code == 1
    assert re.fullmatch(rf"pykafka: no topic '{name}'{hint} \(`pykafka topics list` shows all\)\n", err), err


def test_topics_are_shown_with_their_bytes(command, as_json, kafka_broker, kafka_topic, produce):
    from kafka import KafkaAdminClient

    name = kafka_topic(partitions=2)
    produce(name, {0: [b"a", b"b"], 1: [b"c"]})
    theirs = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap_servers)
    (answer,) = theirs.describe_log_dirs([name])
    theirs.close()
    logs = [log for folder in answer["log_dirs"] for topic in folder["topics"] for log in topic["partitions"]]
    on_disk = sum(log["partition_size"] for log in logs)
    assert (len(logs), on_disk > 0) == (2, True)
    assert [topic["bytes"] for topic in as_json("topics", "list") if topic["topic"] == name] == [on_disk]
    (topic,) = as_json("topics", "describe", name)
    assert sum(log["bytes"] for log in topic["partitions"]) == on_disk
    _, (title, columns, *rows), err = command("topics", "describe", name)
    assert f", 3 offsets, {on_disk} B, ok" in title
    assert (columns.split()[-1], sum(int(row.split()[-1]) for row in rows), err) == ("BYTES", on_disk, "")


def test_settings_and_partitions_change_and_the_others_stay(command, as_json, kafka_topic):
    name = kafka_topic(partitions=1, config={"retention.ms": "60000", "segment.ms": "70000"})
    changes = ("-p", "2", "-s", "cleanup.policy=compact", "--unset", "segment.ms")
    assert command("topics", "alter", name, *changes)[0] == 0
    (topic,) = as_json("topics", "describe", name)
    of_topic = {key: setting["value"] for key, setting in topic["settings"].items() if setting["source"] == "topic"}
    assert of_topic == {"retention.ms": "60000", "cleanup.policy": "compact"}
    assert [(partition["partition"], partition["in_sync_replicas"]) for partition in topic["partitions"]] == [
        (0, [1]),
        (1, [1]),
    ]


def test_what_another_client_wrote_is_read_by_offset_by_count_and_from_the_end(command, produce, kafka_topic):
    name = kafka_topic(partitions=2)
    produce(name, {0: [b"a0", b"a1", b"a2"], 1: [b"b0"]}, key=b"k")
    assert command("read", name)[1] == ["a0", "a1", "a2", "b0"]
    assert command("read", name, "--from", "1", "-p", "0", "--until", "2")[1] == ["a1"]
    assert command("read", name, "--last", "1")[1] == ["a2", "b0"]
    assert command("read", name, "-n", "2", "-K", ":")[1] == ["k:a0", "k:a1"]
    assert command("read", name, "--from", "2020-01-01", "--until", "1h")[1] == []
    assert command("read", name, "--from", "1h", "-p", "1")[1] == ["b0"]


def test_kcats_words_read_what_kcat_would_and_a_terminal_is_shown_control_bytes(
    command, produce, kafka_topic, kafka_broker
):
    name = kafka_topic()
    produce(name, {0: [b"old", b"\x1b[31mred", b"new"]}, key=b"k", headers=[("h", b"1")])
    words = ("-o", "-2", "-c", "1", "-f", r"%p %o %k=%s %h\n")
    assert command("read", name, *words)[1] == ["0 1 k=\x1b[31mred h=1"]
    ours, theirs = pty.openpty()
    line = [sys.executable, "-m", "kafkasource", "read", name, *words, "-b", kafka_broker.bootstrap_servers]
    try:
        subprocess.run(line, stdout=theirs, stderr=subprocess.DEVNULL, check=True, timeout=60)
        assert os.read(ours, 100) == rb"0 1 k=\x1b[31mred h=1" + b"\r\n"
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_file_is_there_when_all_of_it_is(command, produce, kafka_topic, tmp_path):
    name = kafka_topic()
    produce(name, {0: [b"v"]}, key=b"k", headers=[("h", b"1")])
    assert command("read", name, "--to", str(tmp_path / "x.parquet"))[0] == 0
    (row,) = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    assert (row["key"], row["value"], row["topic"], row["offset"]) == (b"k", b"v", name, 0)
    assert row["headers"] == [{"key": "h", "value": b"1"}]
    assert command("read", "no-such-topic", "--to", str(tmp_path / "y.parquet"))[0] == 1
    assert os.listdir(tmp_path) == ["x.parquet"]


def test_lines_become_records_that_another_client_reads(typed, consumed, kafka_topic):
    name = kafka_topic()
    out, err = typed("write", name, "-K", ":", "--null", "", "-H", "src=cli", "--json").communicate(
        b"a:1\nb:2\nc:\n", 60
    )
    assert err == f"3 records written to 1 partition of {name}\n".encode()
    (written,) = json.loads(out)
    assert (written["records"], written["first_offset"], written["last_offset"]) == (3, 0, 2)
    header = [("src", b"cli")]
    assert consumed(name, 1, 3) == [(0, 0, b"a", b"1", header), (0, 1, b"b", b"2", header), (0, 2, b"c", None, header)]


def test_a_topic_copied_as_json_is_the_same_topic(typed, consumed, produce, kafka_topic):
    source, target = kafka_topic(partitions=2), kafka_topic(partitions=2)
    produce(source, {0: [b"\xff\x00", b"text"], 1: ["ümlaut".encode(), b""]}, key=b"\xfe", headers=[("h", b"\xfd")])
    copied, _ = typed("read", source, "--json").communicate(timeout=60)
    typed("write", target, "--format", "json").communicate(copied, 60)
    assert consumed(target, 2, 4) == consumed(source, 2, 4)


def test_lines_before_a_bad_one_are_written_and_it_is_named(typed, consumed, kafka_topic):
    name = kafka_topic()
    process = typed("write", name, "--format", "json")
    process.stdin.write(b'{"value": 1}\n')
    process.stdin.flush()
    assert [record[3] for record in consumed(name, 1, 1)] == [b"1"]  # while the command waits for more
    _, err = process.communicate(b"nonsense\n", 60)
    assert process.returncode == 1
    assert b"1 record written" in err
    assert b"pykafka: line 2 is not a record in JSON" in err


def test_to_follow_is_to_print_what_comes_until_ctrl_c_which_is_no_error(typed, produce, kafka_topic):
    name = kafka_topic()
    produce(name, {0: [b"before"]})
    process = typed("read", name, "--follow", "--last", "1")
    assert process.stdout.readline() == b"before\n"
    produce(name, {0: [b"after"]})
    assert process.stdout.readline() == b"after\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_a_groups_offsets_are_set_shown_and_counted_against_the_ends(
    command, as_json, admin, produce, kafka_topic, group
):
    name = kafka_topic(partitions=2)
    produce(name, {0: [b"1"] * 10, 1: [b"1"] * 5})
    assert "nothing was changed" in command("offsets", "set", "-g", group, "-t", name, "--to", "4")[1][-1]
    assert admin.groups.committed(group) == {}
    assert command("offsets", "set", "-g", group, "-t", f"{name}:0", "--to", "4", "--yes")[0] == 0
    assert command("offsets", "set", "-g", group, "-t", f"{name}:1", "--to", "latest", "--yes")[0] == 0
    assert admin.groups.committed_offsets(group, [TopicPartition(name, 0), TopicPartition(name, 1)]) == {
        TopicPartition(name, 0): 4,
        TopicPartition(name, 1): 5,
    }
    assert as_json("offsets", "show", "-g", group) == {name: {"0": 4, "1": 5}}
    assert as_json("lag", "-g", group)["lag"] == 6
    would_be = as_json("offsets", "set", "-g", group, "--to", "earliest")["offsets"]
    assert would_be == {name: {"0": 0, "1": 0}}  # the topics that the group names
    code, _, err = command("offsets", "set", "-g", f"{group}-new", "--to", "earliest")
    assert (code, "Give --topic" in err, err.count("\n")) == (1, True, 1)
    assert command("lag", "-g", group, "--fail-above", "5")[0] == 1
    assert command("lag", "-g", group, "--fail-above", "6")[0] == 0
    _, lines, _ = command("groups", "describe", group)
    assert lines[0] == f"lag 6 in 1 of 2 partitions, group {group}: Empty, 0 members"
    assert lines[3].split() == [name, "0", "4", "10", "6"]
    assert command("offsets", "delete", "-g", group, "-t", f"{name}:0")[0] == 0
    assert as_json("offsets", "show", "-g", group) == {name: {"1": 5}}
    assert command("groups", "delete", group)[1] == [f"deleted {group}"]
    code, _, err = command("groups", "describe", group)
    assert (code, err) == (1, f"pykafka: no group {group!r} (`pykafka groups list` shows all)\n")


def test_a_query_is_counted_by_its_checkpoint_and_a_group_is_set_to_where_it_stands(
    command, as_json, admin, produce, kafka_topic, group, checkpoint
):
    name, at = kafka_topic(partitions=2), checkpoint.location
    produce(name, {0: [b"1"] * 10, 1: [b"1"] * 5})
    checkpoint(0, json.dumps({name: {"0": 4, "1": 5}}))
    checkpoint(1, json.dumps({name: {"0": 9, "1": 5}}), done=False)  # planned: not what the query has finished
    code, lines, _ = command("lag", "--checkpoint", at, "--fail-above", "5")
    assert (code, lines[0]) == (1, f"lag 6 in 1 of 2 partitions, query of {at} after micro-batch 0")
    assert lines[3].split() == [name, "0", "4", "10", "6"]
    report = as_json("lag", "--checkpoint", at)
    assert (report["checkpoint"], report["batch"], report["lag"]) == (at, 0, 6)
    to_checkpoint = ("offsets", "set", "-g", group, "--to-checkpoint", at)
    assert "nothing was changed" in command(*to_checkpoint)[1][-1]
    assert command(*to_checkpoint, "-t", f"{name}:1", "--yes")[0] == 0
    assert as_json("offsets", "show", "-g", group) == {name: {"1": 5}}
    assert as_json(*to_checkpoint, "--yes") == {"set": True, "group": group, "offsets": {name: {"0": 4, "1": 5}}}
    assert admin.groups.committed_offsets(group, [TopicPartition(name, 0)]) == {TopicPartition(name, 0): 4}


def test_a_mirrors_lag_is_asked_by_its_file_alone_and_its_checkpoint_is_found_beneath(
    as_json, produce, kafka_broker, kafka_topic, checkpoint, tmp_path, capfdbinary
):
    name = kafka_topic(partitions=2)
    produce(name, {0: [b"1"] * 10, 1: [b"1"] * 5})
    checkpoint(0, json.dumps({name: {"0": 4, "1": 5}}))
    (tmp_path / "mirror" / "east" / "1").mkdir(parents=True)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).rename(tmp_path / "mirror" / "east" / "1" / folder)
    assert as_json("lag", "--checkpoint", f"{tmp_path}/mirror")["lag"] == 6
    file = tmp_path / "mirror.toml"
    file.write_text(
        f'checkpoint = "{tmp_path}/mirror"\n'
        f'[clusters.east]\nkafka.bootstrap.servers = "{kafka_broker.bootstrap_servers}"\n'
        '[clusters.west]\nkafka.bootstrap.servers = "127.0.0.1:1"\n'  # what it writes to is not asked
        f'[[flows]]\nfrom = "east"\nto = "west"\ntopics = ["{name}"]\n'
    )
    assert main(["lag", "--mirror", str(file)]) == 1
    assert b"/mirror/east has no record of a mirror's positions" in capfdbinary.readouterr().err
    (flow,) = rules = (FlowRules("west", "${topic}", f"^{name}$"),)
    readers = MirrorReader("1", rules, None), MirrorReader("1-to-north", (replace(flow, target="north"),), {}, {})
    record = PositionRecord(1, "east", {}, SourceRules(rules), readers, {}, {})
    save(LocalFiles(f"{tmp_path}/mirror"), record)
    assert main(["lag", "--mirror", str(file), "--fail-above", "5"]) == 1
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[0] == "lag 6 in 1 of 2 partitions, east->west after micro-batch 0"
    assert "no partitions, east->north, which catches up, before its first micro-batch" in lines
    assert main(["lag", "--mirror", str(file), "-b", "127.0.0.1:1"]) == 1
    assert b"leave out -b" in capfdbinary.readouterr().err


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ({"0": 1, "7": 1}, "1 no longer exist"),
        ({"0": 99}, "1 beyond the end of the log: was the topic created again?"),
    ],
)
def test_a_checkpoint_of_a_topic_that_was_deleted_or_made_anew_says_so_and_moves_no_group(
    command, admin, kafka_topic, group, checkpoint, offsets, words
):
    name = kafka_topic()
    checkpoint(0, json.dumps({name: offsets}))
    assert words in command("lag", "--checkpoint", checkpoint.location)[1][0]
    code, _, err = command("offsets", "set", "-g", group, "--to-checkpoint", checkpoint.location, "--yes")
    assert (code, err.count("\n"), "Nothing was changed" in err) == (1, 1, True)
    assert admin.groups.committed(group) == {}


def of_kafka_python(topic, **settings):
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest")
    while not consumer.assignment():
        consumer.poll(100)
    return consumer


def of_confluent_kafka(topic, **settings):
    """A member by the newer protocol (KIP-848), where the coordinator assigns."""
    from confluent_kafka import Consumer

    configured = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer({**configured, "group.protocol": "consumer", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while max((partition.offset for partition in consumer.position(consumer.assignment())), default=0) <= 0:
        consumer.poll(0.1)
    return consumer


# kafka-python 3.0 waits without a limit for its own I/O thread (`selector.run`), seen once to wait for ever.
@pytest.mark.timeout(90)
@pytest.mark.flaky(reruns=2, only_rerun="Timeout")
@pytest.mark.parametrize(("join", "protocol"), [(of_kafka_python, "classic"), (of_confluent_kafka, "consumer")])
def test_members_of_other_clients_are_shown_and_their_offsets_not_overwritten(
    command, as_json, admin, produce, kafka_broker, kafka_topic, group, join, protocol
):
    if protocol == "consumer" and not admin.supports(CONSUMER_GROUP_DESCRIBE):
        pytest.skip("an older cluster")
    name = kafka_topic(partitions=2)
    produce(name, {0: [b"x"] * 3})
    brokers = kafka_broker.bootstrap_servers
    consumer = join(name, bootstrap_servers=brokers, group_id=group, client_id="theirs")
    try:
        consumer.commit()
        (described,) = as_json("groups", "describe", group)
        (member,) = described["members"]
        assert (described["state"], member["client"], member["host"]) == ("Stable", "theirs", "127.0.0.1")
        assert {(partition["partition"], partition["member"]) for partition in described["partitions"]} == {
            (0, member["member"]),
            (1, member["member"]),
        }
        (listed,) = [line for line in as_json("groups", "list") if line["group"] == group]
        assert (listed["state"], listed["members"], listed["protocol"]) == ("Stable", 1, "consumer")
        assert (described["type"], listed["type"] or protocol) == (protocol, protocol)
        for words in (("offsets", "set", "-g", group, "-t", name, "--to", "0", "--yes"), ("groups", "delete", group)):
            code, _, err = command(*words)
            assert (code, "end them first" in err, err.count("\n")) == (1, True, 1)
    finally:
        consumer.close()


def test_two_readers_of_a_group_read_every_record_once_and_the_next_goes_on_there(
    typed, command, as_json, produce, admin, kafka_topic, group
):
    name = kafka_topic(partitions=2)
    produce(name, {0: [b"a%d" % n for n in range(50)], 1: [b"b%d" % n for n in range(50)]})
    assert len(command("read", name, "--group", group, "-n", "30")[1]) == 30
    assert as_json("lag", "-g", group)["lag"] == 70  # as Kafka's consumer: also of the partition it did not reach
    both = [typed("read", name, "--group", group) for _ in range(2)]
    printed = [line for process in both for line in process.communicate(timeout=60)[0].splitlines()]
    assert len(printed) == 70
    assert admin.groups.committed_offsets(group, [TopicPartition(name, 0), TopicPartition(name, 1)]) == {
        TopicPartition(name, 0): 50,
        TopicPartition(name, 1): 50,
    }


def test_a_reader_that_is_terminated_leaves_its_group_at_once(typed, admin, produce, kafka_topic, group):
    name = kafka_topic()
    produce(name, {0: [b"one"]})
    process = typed("read", name, "--group", group, "--follow")
    assert process.stdout.readline() == b"one\n"
    first, deadline_s = TopicPartition(name, 0), time.monotonic() + 60
    while admin.groups.committed_offsets(group, [first])[first] is None:
        assert time.monotonic() < deadline_s
    process.terminate()
    assert process.communicate(timeout=30) == (b"", b"")
    assert admin.groups.describe([group])[group].members == ()  # long before its session would end


def test_doctor_reaches_each_broker_by_the_address_that_it_advertises(as_json, kafka_broker):
    findings = {finding["what"]: finding for finding in as_json("doctor")}
    assert findings["broker 1"]["level"] == "ok"
    assert findings["broker 1"]["found"].startswith(kafka_broker.bootstrap_servers.split(",")[0])
    assert findings["java"]["level"] == "ok"


def test_the_example_reads_and_writes_without_pyspark(kafka_broker, kafka_topic):
    name = kafka_topic()
    hidden = (
        f"import sys, runpy; sys.modules['pyspark'] = None; sys.argv[1:] = {[kafka_broker.bootstrap_servers, name]!r}"
    )
    code = f"{hidden}; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"wrote 3 records to {name}-0, the last at offset 2" in done.stdout
    assert done.stdout.count("'value': b'{\"n\": ") == 3
