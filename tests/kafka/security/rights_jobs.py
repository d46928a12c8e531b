"""How each job of rights.py runs on a real broker, by the parts that Spark or a shell would call.

A job is a function of a `World`. It raises what ends it. It returns the warnings, or the part of its output, that shows
what it did without.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType
from secured_brokers import USERS
from transaction_fakes import FakeContext
from ui_process import Served

from kafkasource import options
from kafkasource.datasource import KafkaDataSource
from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.cluster.cache import close_clusters
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.mirror import job as mirror_job
from kafkasource.mirror import plan as mirror_plan
from kafkasource.mirror.flow import Flow
from kafkasource.reader import Reader
from kafkasource.sink.clusters import offset_map, targets
from kafkasource.sink.writer import StreamWriter
from kafkasource.source.spark.stream import StreamReader
from kafkasource.testing.broker.security.secured import SecuredCluster
from kafkasource.tools.cli import main
from kafkasource.tools.ui.app import UiServer
from kafkasource.tools.web.serving import Listening
from kafkasource.types import TopicPartition
from kafkasource.writer import Writer

SCHEMA = StructType([StructField("value", BinaryType())])
ROWS = 3


class CommandFailed(KafkaSourceError):
    """A command ended with an exit code other than 0; the text is its stderr."""


class World:
    """A broker's user that runs one job. Names of its topics, groups and ids begin with its own name."""

    def __init__(
        self, secured: SecuredCluster, properties: Mapping[str, str], folder: Path, name: str, shared: str = ""
    ) -> None:
        """`properties`: the user's, as Java has them. `shared`: begins the names of the topic and the group that
        `prepare` makes."""
        self.name, self.folder, self.properties = name, folder, properties
        shared = shared or name
        self.options = {f"kafka.{option}": text for option, text in self.properties.items()}
        self.super_user = secured.bootstrap_servers("PLAINTEXT")
        self.topic, self.group = f"{shared}-topic", f"{shared}-group"

    def prepare(self) -> None:
        """Make the topic, with records, and the group, with an offset: as the super user."""
        with Cluster(ClientConfig.of(self.super_user)) as cluster:
            cluster.topics.create([self.topic], partitions=1)
            cluster.groups.commit(self.group, {TopicPartition(self.topic, 0): 1})
        with Writer({"kafka.bootstrap.servers": self.super_user, "topic": self.topic}) as writer:
            writer.write(pa.table({"value": [b"row"] * ROWS}))

    def change_topic(self) -> None:
        """Change the topic as the super user."""
        with Cluster(ClientConfig.of(self.super_user)) as cluster:
            there = cluster.topics.describe([self.topic])[self.topic]
            count = len(there.partitions)
            cluster.topics.add_partitions({self.topic: count + 1})
            cluster.topics.change_settings(self.topic, {"retention.ms": str(7_200_000 + count)})

    def reader(self, **given: str) -> Reader:
        return Reader({**self.options, "subscribe": self.topic, "startingOffsets": "earliest", **given})

    def writer(self, **given: str) -> Writer:
        return Writer({**self.options, "topic": self.topic, **given})

    def command(self, *words: str) -> str:
        """Run `pykafka` as this user; what it printed, which is no secret."""
        config = self.folder / f"{self.name}.properties"
        lines = [f"{name}={text}\n" for name, text in self.properties.items()]
        config.write_text("".join(lines).replace("\\", "\\\\"), encoding="iso-8859-1")  # as Java reads it
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*words, "--command-config", str(config)])
        out.seek(0)
        printed = out.read()
        secrets = (*USERS.values(), self.properties.get("sasl.jaas.config", "PRIVATE KEY"))
        assert not any(secret in printed + err.getvalue() for secret in secrets)
        if code != 0:
            raise CommandFailed(err.getvalue())
        return printed


def close_all() -> None:
    """Close what the process caches for its next job."""
    for recorder in offset_map._recorders.get():
        if recorder._topic is not None:
            recorder._topic.close()
    offset_map._recorders.reset()
    close_clusters()


@contextlib.contextmanager
def warnings() -> Iterator[list[str]]:
    """Collect the package's log messages from WARNING on."""
    messages: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    keeper = Keeper(logging.WARNING)
    logging.getLogger("kafkasource").addHandler(keeper)
    try:
        yield messages
    finally:
        logging.getLogger("kafkasource").removeHandler(keeper)


def batch_read(world: World, **given: str) -> str:
    with world.reader(**given) as reader:
        assert sum(batch.num_rows for batch in reader)
    return ""


def read_on_from_a_group(world: World) -> str:
    return batch_read(world, startingOffsets="committed:earliest", **{"kafka.group.id": world.group})


def stream(world: World, **given: str) -> str:
    reading = {**world.options, "subscribe": world.topic, "startingOffsets": "earliest", **given}
    return _stream(reading)


def stream_of_a_pattern(world: World) -> str:
    return _stream({**world.options, "subscribePattern": f"^{world.topic}$", "startingOffsets": "earliest"})


def _stream(reading: Mapping[str, str]) -> str:
    reader = StreamReader(options.parse(reading, "source"))
    with warnings() as messages:
        try:
            start = json.loads(json.dumps(reader.initialOffset()))
            end = json.loads(json.dumps(reader.latestOffset(start)))
            parts = reader.partitions(start, end)
            rows = sum(batch.num_rows for part in parts for batch in reader.read(part))
            assert rows == (ROWS if end else 0)
            reader.commit(end)
            reader.latestOffset(end)
        finally:
            reader.stop()
    return "\n".join(messages)


def stream_with_a_group(world: World) -> str:
    return stream(world, **{"kafka.group.id": f"{world.name}-other"})


def stream_that_owns_its_group(world: World) -> str:
    return stream(world, groupOwnership="exclusive", **{"kafka.group.id": f"{world.name}-other"})


def member_of_a_group(world: World) -> str:
    how = ("--group", f"{world.name}-other", "--from", "earliest", "-X", "isolation.level=read_committed")
    return world.command("read", world.topic, *how)


def write(world: World, **given: str) -> str:
    with world.writer(**given) as writer:
        writer.write(pa.table({"value": [b"row"]}))
    return ""


def write_without_idempotence(world: World) -> str:
    return write(world, **{"kafka.enable.idempotence": "false"})


def write_to_a_new_topic(world: World) -> str:
    return write(world, topic=f"{world.name}-new", createTopic="partitions=1")


def exactly_once(world: World, **given: str) -> str:
    """A micro-batch; one that dies and is run again; one that is aborted and run again."""
    written = {**world.options, "topic": world.topic, "deliveryGuarantee": "exactly_once"}
    written |= {"transactionalIdPrefix": world.name, **given}

    def writer() -> StreamWriter:
        return StreamWriter(targets.parse(written), SCHEMA)

    def tasks(batch_id: int):
        sent = pickle.dumps(writer())
        with mock.patch("pyspark.TaskContext.get", return_value=FakeContext(batch_id=batch_id)):
            rows = pa.record_batch([pa.array([b"row"], pa.binary())], names=["value"])
            return [pickle.loads(sent).write(iter([rows]))]

    writer().commit(tasks(0), 0)
    tasks(1)
    writer().commit(tasks(1), 1)
    writer().abort(tasks(2), 2)
    writer().commit(tasks(2), 2)
    return ""


def exactly_once_in_one_transaction(world: World) -> str:
    return exactly_once(world, atomicBatch="true")


def mirror(world: World) -> str:
    """From the cluster to itself: its topics, a micro-batch, then a source that has changed."""
    source, target = world.name, "B"
    flow = Flow(source, target, topics=(world.topic,), topic="${source}.${topic}")
    clusters = {source: world.options, target: world.options}
    plan = mirror_plan.Plan(clusters, (flow,), checkpoint=str(world.folder), refresh_settings_s=0)
    (route,) = mirror_plan.routes(plan)
    keeper = mirror_job._keeper(plan, route)
    with warnings() as messages:
        try:
            keeper.look(first=True)
            messages.append(_micro_batch(route))
            close_all()  # the driver starts again: it reads the map that is there, and the topics are there, too
            keeper.close()
            keeper = mirror_job._keeper(plan, route)
            keeper.look(first=True)
            messages.append(_micro_batch(route))
            world.change_topic()
            keeper.look()
        finally:
            keeper.close()
    return "\n".join(messages)


def _micro_batch(route: mirror_plan.Route) -> str:
    source = KafkaDataSource(dict(route.read))
    reader = source.streamReader(source.schema())
    try:
        start = json.loads(json.dumps(reader.initialOffset()))
        end = json.loads(json.dumps(reader.latestOffset(start)))
        rows = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    finally:
        reader.stop()
    if not rows:
        return "nothing was mirrored"
    writer = KafkaDataSource(dict(route.write)).streamWriter(source.schema(), False)
    with mock.patch("pyspark.TaskContext.get", return_value=FakeContext()):
        message = pickle.loads(pickle.dumps(writer)).write(iter(rows))
    writer.commit([message], 0)
    return ""


def topics_list(world: World) -> str:
    return world.command("topics", "list", "--json")


def topics_describe(world: World) -> str:
    return world.command("topics", "describe", world.topic, "--all-settings")


def topics_create(world: World) -> str:
    return world.command("topics", "create", f"{world.name}-new")


def topics_alter_settings(world: World) -> str:
    return world.command("topics", "alter", world.topic, "--set", "retention.ms=7200000")


def topics_alter_partitions(world: World) -> str:
    return world.command("topics", "alter", world.topic, "--partitions", "2")


def topics_delete(world: World) -> str:
    return world.command("topics", "delete", world.topic, "--yes")


def groups_list(world: World) -> str:
    return world.command("groups", "list", "--json")


def groups_describe(world: World) -> str:
    return world.command("groups", "describe", world.group)


def groups_delete(world: World) -> str:
    return world.command("groups", "delete", world.group)


def offsets_show(world: World) -> str:
    return world.command("offsets", "show", "--group", world.group)


def offsets_set(world: World) -> str:
    what = ("--group", world.group, "--topic", world.topic, "--to", "earliest", "--yes")
    return world.command("offsets", "set", *what)


def offsets_delete(world: World) -> str:
    return world.command("offsets", "delete", "--group", world.group, "--topic", world.topic)


def transactions_list(world: World) -> str:
    _open_transaction(world)
    return world.command("transactions", "list", "--prefix", world.name)


def transactions_abort(world: World) -> str:
    _open_transaction(world)
    return world.command("transactions", "abort", "--prefix", world.name)


def ui(world: World) -> str:
    """Ask the page's server each of its questions."""
    _open_transaction(world)
    token = "s3cret"
    with Cluster(ClientConfig.from_options(options.parse(world.options, "source"))) as cluster:
        app = UiServer(Listening(token=token), cluster, lambda more: options.parse({**world.options, **more}, "source"))
        with contextlib.closing(app):
            served = Served(app.url)
            answers = [served.get(f"/api/{name}", token) for name in ("cluster", "topics", "groups", "transactions")]
            answers.append(served.get("/api/topic", token, name=world.topic))
            answers.append(served.get("/api/records", token, topic=world.topic))
            answers.append(served.get("/api/group", token, name=world.group))
    return "\n".join(map(str, answers))


def _open_transaction(world: World) -> None:
    """Leave a transaction open, as a killed query of this prefix does."""
    with Cluster(ClientConfig.of(world.super_user)) as cluster:
        producer = cluster.transactions.init_producer_id(f"{world.name}-0", 60_000)
        cluster.transactions.add_partitions(f"{world.name}-0", producer, [TopicPartition(world.topic, 0)])
