"""THE table of options: what a user may write after `.option(`, with type, default, bounds and who uses it.

Names are those of Spark's JVM connector; `kafka.*` are those of Kafka's Java clients, with librdkafka's as aliases.
Keys are case-insensitive, as Spark's are. Validation (here), docs/options.md (`markdown_table`) and the tests all read
`OPTIONS`. Everything here happens on the driver, before a broker is contacted. No option is accepted and then ignored:
what we cannot honour is an error that says what to use instead (`REFUSED`, `NOT_YET`), what nobody knows is a warning
with the nearest name.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kafkasource.errors import OptionError
from kafkasource.types import NewTopic

log = logging.getLogger(__name__)

KIB, MIB = 1024, 1024 * 1024
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
_DURATION_US = {"us": 1, "ms": 10**3, "s": 10**6, "m": 6 * 10**7, "min": 6 * 10**7, "h": 36 * 10**8, "d": 864 * 10**8}

Role = Literal["source", "sink"]
SOURCE: tuple[Role, ...] = ("source",)
SINK: tuple[Role, ...] = ("sink",)
BOTH: tuple[Role, ...] = ("source", "sink")
Parser = Callable[[str], Any]


@dataclass(frozen=True)
class Type:
    """How the text of an option becomes a value. `parse` raises ValueError; `expected` completes "expected ..."."""

    name: str
    expected: str
    parse: Parser


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _bootstrap_servers(text: str) -> tuple[tuple[str, int], ...]:
    """`host:port,[v6]:port` to pairs; the port is required, as Kafka requires it."""
    servers = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(?:\w+://)?(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:/\s]+)):(\d{1,5})", item)
        if match is None or not 1 <= int(match[3]) <= 65535:
            raise ValueError(item)
        servers.append((match[1] or match[2], int(match[3])))
    if not servers:
        raise ValueError(text)
    return tuple(servers)


def _duration_ms(text: str) -> int:
    """Milliseconds of `15m`, `500ms`, `10` (a bare number is ms already), as Spark's own time strings."""
    match = re.fullmatch(r"(-?\d+)([a-z]*)", text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _DURATION_US[match[2] or "ms"] // 1000


def _size_bytes(text: str) -> int:
    """Bytes of `64m`, `1g`, `1024` (a bare number is bytes already), as Spark's own sizes."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)b?", text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) << 10 * "_kmgtp".index(match[2] or "_")


def _gzip_level(text: str) -> int:
    level = int(text.strip())
    return level if level == -1 or 1 <= level <= 9 else _refuse(text)


def _new_topic(text: str) -> NewTopic:
    """`partitions=6,replication=3,cleanup.policy=compact,delete`: what has no `=` goes on with the value before it."""
    pairs: dict[str, str] = {}
    name = ""
    for piece in text.split(","):
        key, equals, value = piece.partition("=")
        if equals:
            name = key.strip()
            if not re.fullmatch(r"[a-z][a-z.]*", name) or name in pairs:
                raise ValueError(text)
            pairs[name] = value.strip()
        elif name:
            pairs[name] += "," + piece.strip()
        else:
            raise ValueError(text)
    partitions, replication = int(pairs.pop("partitions", "-1")), int(pairs.pop("replication", "-1"))
    if not (partitions == -1 or 1 <= partitions <= MAX_INT32) or not (replication == -1 or 1 <= replication < 2**15):
        raise ValueError(text)
    return NewTopic(partitions, replication, tuple(pairs.items()))


def _function(text: str) -> str:
    return text.strip() if re.fullmatch(r"\s*[\w.]+:\w+\s*", text) else _refuse(text)


PARTITIONERS = ("murmur2", "murmur2_round_robin")


def _partitioner(text: str) -> str:
    return text.strip() if text.strip() in PARTITIONERS else _function(text)


def _old_release(text: str) -> str:
    match = re.fullmatch(r"(auto|0\.9\.0|0\.8\.2)(?:\.\d+)?", text.strip().lower())
    return match[1] if match else _refuse(text)


TEXT = Type("string", "a text", str)  # whose reader says what is wrong with an empty one
STRING = Type("string", "a text that is not empty", lambda text: text.strip() or _refuse(text))
JSON = Type("json", "JSON", lambda text: text.strip() or _refuse(text))
BOOLEAN = Type("boolean", "true or false", _boolean)
INTEGER = Type("integer", "a whole number", lambda text: int(text.strip()))
MILLISECONDS = Type("ms", "a whole number of milliseconds", lambda text: int(text.strip()))
BYTES = Type("bytes", "a whole number of bytes", lambda text: int(text.strip()))
TIMESTAMP = Type("ms", "a whole number of milliseconds since 1970-01-01 UTC", lambda text: int(text.strip()))
DURATION = Type("duration", "a duration such as 500ms, 5s, 15m (a bare number: ms)", _duration_ms)
SIZE = Type("size", "a size such as 64m, 1g (a bare number: bytes)", _size_bytes)
GZIP_LEVEL = Type("integer", "-1 or a whole number from 1 to 9", _gzip_level)  # as Java: not 0, which is no compression
NEW_TOPIC = Type(
    "settings",
    "partitions=6,replication=3,cleanup.policy=compact (any of these; any of the topic's settings)",
    _new_topic,
)
FUNCTION = Type("module:function", "module:function", _function)


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(text)
    return tuple(found.items())


HEADERS = Type("json", 'JSON such as {"from":"east"}', _headers)
HEADER = Type("key=value", "key=value", lambda text: text if text.partition("=")[0] and "=" in text else _refuse(text))
PARTITIONER = Type(
    " \\| ".join((*PARTITIONERS, "module:function")), f"{', '.join(PARTITIONERS)} or module:function", _partitioner
)
OLD_RELEASE = Type("auto \\| 0.9.0 \\| 0.8.2", "auto, 0.9.0 or 0.8.2", _old_release)
SERVERS = Type("servers", "host:port[,host:port...] with IPv6 addresses in brackets", _bootstrap_servers)


def _refuse(text: str) -> Any:
    raise ValueError(text)


def choice(*allowed: str) -> Type:
    """One of a few words, in any case; the value is the word as it stands here."""
    words = {word.lower(): word for word in allowed}
    return Type(" \\| ".join(allowed), "one of " + ", ".join(allowed), lambda text: words[text.strip().lower()])


@dataclass(frozen=True)
class Option:
    """One row of the table. `default` is already typed; None means "not set". Bounds are inclusive."""

    name: str
    type: Type
    default: Any
    used_by: tuple[Role, ...]
    doc: str
    at_least: int | None = None
    at_most: int | None = None
    aliases: tuple[str, ...] = ()
    differs: str = ""  # why our default is not Java's or the JVM connector's
    complaint: str = ""  # how the JVM connector's error begins, for those who search for it

    def parse(self, text: str) -> Any:
        try:
            value = self.type.parse(text)
        except (ValueError, KeyError):
            raise self.error(text) from None
        if isinstance(value, int) and not isinstance(value, bool):
            low, high = self.at_least, self.at_most
            if (low is not None and value < low) or (high is not None and value > high):
                raise self.error(text)
        return value

    @property
    def allowed(self) -> str:
        low, high = self.at_least, self.at_most
        bounds = ""
        if low is not None and high is not None:
            bounds = f" from {low} to {high}"
        elif low is not None:
            bounds = f" of at least {low}"
        return self.type.expected + bounds

    def error(self, text: str) -> OptionError:
        complaint = f"{self.complaint}: " if self.complaint else ""
        return OptionError(f"option {self.name!r}: {complaint}expected {self.allowed}, got {text!r}")


OPTIONS: tuple[Option, ...] = (
    # What to read.
    Option("subscribe", TEXT, None, SOURCE, "Topics to read, separated by commas."),
    Option("subscribePattern", TEXT, None, SOURCE, "Topics to read: a regular expression searched in their names."),
    Option("assign", JSON, None, SOURCE, 'Partitions to read: `{"topic":[0,1]}`.'),
    Option(
        "startingOffsets",
        JSON,
        None,
        SOURCE,
        "Where a new query starts: `earliest`, `latest`, or "
        '`{"topic":{"0":23,"1":-2}}` (-2 earliest, -1 latest), or `{"topic":"earliest"}`. '
        "`committed`: where the group `kafka.group.id` stands; `committed:earliest`, `committed:latest`: the same, and "
        "for partitions of which the group has no offset the earliest or latest. Batch: earliest; stream: latest. "
        "A restart goes on from its checkpoint.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        JSON,
        None,
        SOURCE,
        "A new query starts at the first record of each partition that is not older: "
        '`{"topic":{"0":1600000000000}}` in ms. Goes before `startingOffsets`.',
    ),
    Option(
        "startingTimestamp",
        TIMESTAMP,
        None,
        SOURCE,
        "The same timestamp, in ms, for all partitions. Goes before the two above.",
        at_least=-2,  # -1 and -2 reach ListOffsets as they are, as in the JVM connector: latest, earliest
        at_most=MAX_INT64,
        complaint="Expected a single long value",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        "error",
        SOURCE,
        "Where all of a partition's records are older than the starting timestamp: fail, or start at its end.",
    ),
    Option(
        "endingOffsets",
        JSON,
        None,
        SOURCE,
        "Where the read ends, exclusive: `latest` (default) or JSON as above. "
        "Batch, and streams under `trigger(availableNow=True)`.",
    ),
    Option(
        "endingOffsetsByTimestamp",
        JSON,
        None,
        SOURCE,
        "The read ends before the first record of each partition that is not older, JSON as above; where all are "
        "older, at the end. Goes before `endingOffsets`, for the same reads.",
    ),
    Option(
        "endingTimestamp",
        TIMESTAMP,
        None,
        SOURCE,
        "The same timestamp, in ms, for all partitions. Goes before the two above.",
        at_least=-2,
        at_most=MAX_INT64,
        complaint="Expected a single long value",
    ),
    Option("includeHeaders", BOOLEAN, False, SOURCE, "Add the column `headers`."),
    Option(
        "packRecords",
        BOOLEAN,
        False,
        SOURCE,
        "For rows that are only carried on, as by `pykafka mirror`: one column, `records`, of about a MiB of a "
        "partition's records each, which the sink takes in place of all others. Spark sees no record then; its "
        "progress counts these pieces.",
    ),
    Option(
        "addHeaders",
        HEADERS,
        None,
        SOURCE,
        'With `packRecords`: headers that each record gets after its own, as `{"from":"east"}`; in a value `${topic}`, '
        "`${partition}` and `${offset}` stand for where it was read.",
    ),
    Option(
        "pushDownPredicate",
        BOOLEAN,
        False,
        SOURCE,
        "Batch: read only what filters on `topic`, `partition`, `offset` and (lower bounds) `timestamp` leave. Needs "
        "Spark's conf `spark.sql.python.filterPushdown.enabled`, without which Spark refuses the read. Spark 4.2 and "
        "4.3 use what was planned for one filter for every query on the same DataFrame: set it only for a `load()` "
        "with a single filter.",
    ),
    Option(
        "stopFile",
        TEXT,
        None,
        SOURCE,
        "Path of a file on the driver's machine. Once somebody makes that file, the query plans no further "
        "micro-batch, and removes the file when the last one is committed: `query.stop()` then cancels nothing. Stream "
        "only.",
    ),
    Option(
        "failOnDataLoss",
        BOOLEAN,
        True,
        SOURCE,
        "Stop when records that were to be read are gone (aged out, topic deleted); false: warn and go on.",
    ),
    Option(
        "maxOffsetsPerTrigger",
        INTEGER,
        None,
        SOURCE,
        "At most about this many offsets per micro-batch, shared out by how much each partition holds. Stream only.",
        at_least=1,
        at_most=MAX_INT64,
    ),
    Option(
        "maxBytesPerTrigger",
        SIZE,
        None,
        SOURCE,
        "At most about this many bytes per micro-batch, as the brokers store them (compressed): `64m`. What records "
        "weigh is seen by small samples at the beginning of each. Always at least one record; partitions whose share "
        "is less than a record take turns. Stream only.",
        at_least=1,
        at_most=MAX_INT64,
    ),
    Option(
        "minOffsetsPerTrigger",
        INTEGER,
        None,
        SOURCE,
        "A micro-batch waits until there are so many offsets, or `maxTriggerDelay` has passed. Stream only.",
        at_least=1,
        at_most=MAX_INT64,
    ),
    Option(
        "maxTriggerDelay",
        DURATION,
        900_000,
        SOURCE,
        "How long `minOffsetsPerTrigger` may hold a micro-batch back: `5s`, `15m` (the default); a bare number is ms.",
        at_least=0,
        at_most=MAX_INT64,
    ),
    Option(
        "minPartitions",
        INTEGER,
        None,
        SOURCE,
        "At least about this many input partitions (tasks): large ranges of offsets are cut, the largest into most. "
        "Small ones then share none unless `minRecordsPerPartition` or `maxPartitions` is given.",
        at_least=1,
        at_most=MAX_INT32,
        complaint="minPartitions must be positive",
    ),
    Option(
        "maxRecordsPerPartition",
        INTEGER,
        None,
        SOURCE,
        "A range of more offsets than this is cut into equal ones, each with an input partition of its own unless "
        "`minRecordsPerPartition` or `maxPartitions` is given.",
        at_least=1,
        at_most=MAX_INT64,
        complaint="maxRecordsPerPartition must be positive",
    ),
    Option(
        "maxPartitions",
        INTEGER,
        None,
        SOURCE,
        "At most this many input partitions (tasks): ranges of several topic-partitions share one, balanced by size, "
        "each in order. Default: as many as topic-partitions that hold something.",
        at_least=1,
        at_most=MAX_INT32,
    ),
    Option(
        "minRecordsPerPartition",
        INTEGER,
        None,
        SOURCE,
        "Smaller ranges (in offsets; each counts 500 more) share input partitions until these hold about so many, as "
        "a Python task costs some 10 ms by itself. 1: each topic-partition has its own, as is right where the work on "
        "each row is heavy. Default: batch 1, stream 25000 or about 32 MiB, whichever is less: a record counts as one "
        "offset for each 1342 bytes that it is stored in. What records weigh is estimated from record batches fetched "
        "where a micro-batch begins: at most once a minute (every 5 s where it is near 4 MiB or more), and never for "
        "micro-batches of less than 32 offsets. With a number of yours offsets alone count.",
        at_least=1,
        at_most=MAX_INT64,
    ),
    Option(
        "readAhead",
        INTEGER,
        8,
        SOURCE,
        "Where the way to the broker is long (round trip x speed), a fetch grows to at most this many times "
        "`kafka.max.partition.fetch.bytes`, within `kafka.fetch.max.bytes`; and at most so many small ranges of a task "
        "are fetched at once. All of them together stay within what the line has been seen to carry in a third of "
        "`kafka.request.timeout.ms`, also where that is less than one fetch. A task holds at most 2 x "
        "`readAhead` x `kafka.max.partition.fetch.bytes` of what brokers sent. 1: one fetch of the ordinary size at a "
        "time.",
        at_least=1,
        at_most=1000,
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        MILLISECONDS,
        120_000,
        SOURCE,
        "A task fails when a partition has given nothing for this long though records are due.",
        at_least=1,
        at_most=MAX_INT32,
    ),
    Option(
        "fetchOffset.numRetries",
        INTEGER,
        3,
        SOURCE,
        "How often in all the driver asks for topics and offsets when that fails, each time for"
        " `kafka.default.api.timeout.ms`, or when a log seems to have gone backwards.",
        at_least=1,
        at_most=MAX_INT32,
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        MILLISECONDS,
        1_000,
        SOURCE,
        "The wait between.",
        at_least=0,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.group.id",
        STRING,
        None,
        SOURCE,
        "The consumer group whose committed offsets `startingOffsets=committed` starts from and `commitOffsets` "
        "writes. Nothing is read through a group: Spark's checkpoint decides.",
    ),
    Option(
        "commitOffsets",
        BOOLEAN,
        None,
        SOURCE,
        "Commit what a streaming query has finished to the group, for monitors of lag; a failure is a warning. "
        "Default: true with `kafka.group.id`.",
    ),
    Option(
        "groupIdPrefix",
        STRING,
        None,
        SOURCE,
        "With `commitOffsets=true` and without `kafka.group.id`: the group's name. No effect otherwise, since no group "
        "is used to read.",
    ),
    Option(
        "groupOwnership",
        choice("shared", "exclusive"),
        "shared",
        SOURCE,
        "`exclusive`: a streaming query joins `kafka.group.id` as its only member and owns the group while it runs; a "
        "second query or a consumer of that group is refused. One that was killed keeps the group for 10 seconds. "
        "`shared`: it commits without being a member (`commitOffsets`), as may others.",
    ),
    # Where to write.
    Option("topic", STRING, None, SINK, "Topic for all rows; without it each row names its own in the column `topic`."),
    Option(
        "createTopic",
        NEW_TOPIC,
        None,
        SINK,
        "Create the topic that the option `topic` names, where it is missing: `partitions=6,replication=3`, and any of "
        "the topic's settings, as `cleanup.policy=compact`; what is left out is the broker's default. Topics named by "
        "rows are never created: a typo in the data would make one.",
    ),
    Option(
        "partitioner",
        PARTITIONER,
        "murmur2",
        SINK,
        "Where rows go whose column `partition` does not say. `murmur2`: by key as Kafka's Java producer; rows without "
        "a key stick to a partition for a record batch, then take the next. `murmur2_round_robin`: rows without a key "
        "in turn. `module:function`: yours, called in the executors with (topic, keys, values, partition count), the "
        "middle two Arrow binary arrays; it returns an Arrow int32 array, where null leaves a row to `murmur2`.",
    ),
    Option(
        "commitListener",
        FUNCTION,
        None,
        SINK,
        "`module:function`, yours, called on the driver after each micro-batch or batch write with what was put into "
        "each topic-partition: records, bytes, first and last offset (`kafkasource.SinkCommit`); with "
        "`clusters` once for each, and with what was discarded. In a Python process of Spark's, not in yours; an error "
        "there is a warning, and so is `sys.exit`. A call that takes longer than 60 seconds is an error in the log and "
        "is not waited for: what was written is committed whatever the listener does.",
    ),
    # How often each row arrives.
    Option(
        "deliveryGuarantee",
        choice("at_least_once", "exactly_once"),
        "at_least_once",
        SINK,
        "exactly_once: each task writes in a Kafka transaction; all are committed with the micro-batch or the batch "
        "write, and readers with `isolation.level=read_committed` see every row once. Others see aborted copies too.",
    ),
    Option(
        "transactionalIdPrefix",
        STRING,
        None,
        SINK,
        "With exactly_once: how the ids of the query's transactions begin. It is the query's identity: a second query "
        "that has the same is refused. Default: `kafkasource-` and Spark's id of the query, read from the file "
        "`metadata` at `checkpointLocation`; a batch write has none, so it must give this.",
    ),
    Option(
        "atomicBatch",
        BOOLEAN,
        False,
        SINK,
        "With exactly_once: one transaction for all tasks, so that readers see a micro-batch whole or not at all. "
        "Each topic-partition must then be written by one task only, and no task may be run again.",
    ),
    Option(
        "lostTransactions",
        choice("fail", "rewrite", "skip"),
        "fail",
        SINK,
        "With exactly_once: when the brokers gave up transactions of a batch that was already decided, because the "
        "query stayed away for longer than `kafka.transaction.timeout.ms`: stop; or write the same rows again where "
        "they are the same (by count and checksum); or go on without them, with a warning. The same for a whole batch "
        "of which it is not known whether it was decided: the first one of a query that wrote at_least_once until "
        "now, or one whose record is gone.",
    ),
    Option(
        "kafka.transaction.timeout.ms",
        MILLISECONDS,
        600_000,
        SINK,
        "With exactly_once: the brokers abort a transaction that is open for longer; a batch with its retries, and a "
        "restart after a crash, must fit in. At most the brokers' `transaction.max.timeout.ms` (15 minutes).",
        at_least=1,
        at_most=MAX_INT32,
        differs="60000 there; a transaction must outlive the restart of a query",
    ),
    # Many clusters at once.
    Option(
        "clusters",
        JSON,
        None,
        SINK,
        "Write every row to several clusters, read once: "
        '`{"east":{"kafka.bootstrap.servers":"e:9092"}}`, or options `clusters.<name>.<option>`. Each cluster takes '
        "any option of this table but `clusters`, `commitListener`, `deliveryGuarantee`, `transactionalIdPrefix`, "
        "`atomicBatch`, `lostTransactions`, `memoryBudget`; what stands outside of `clusters` (but "
        "`kafka.bootstrap.servers`) holds for all. A cluster's own `topic` may name the row's topic as `${topic}`. "
        "Memory (`kafka.buffer.memory`) is that of a cluster, all its producers together.",
    ),
    Option(
        "partitioning",
        choice("source", "key"),
        "source",
        SINK,
        "With `clusters`. source: the partition in the column `partition` where there is one, as in a mirror, else as "
        "`partitioner` says; key: the column counts for nothing.",
    ),
    Option(
        "producersPerCluster",
        INTEGER,
        1,
        SINK,
        "With `clusters`: producers (connections, threads) of each executor worker. A key has one of them, so that its "
        "rows keep their order; rows without a key take them in turn, which mixes the order of a partition.",
        at_least=1,
        at_most=64,
    ),
    Option(
        "onSlowCluster",
        choice("block", "discard", "fail"),
        "block",
        SINK,
        "With `clusters`: when a cluster's queue is above `highWatermarkBytes` and the others wait because of it. "
        "block: reading waits for it, however long it takes unless `kafka.delivery.timeout.ms` is given; discard: its "
        "oldest batches are dropped down to `lowWatermarkBytes`, counted and reported; fail: the task fails.",
    ),
    Option(
        "highWatermarkBytes",
        SIZE,
        None,
        SINK,
        "With `clusters`: see `onSlowCluster`; at most `kafka.buffer.memory`, which is the default for block; three "
        "quarters of it for the others.",
        at_least=1 * KIB,
        at_most=MAX_INT64,
    ),
    Option(
        "lowWatermarkBytes",
        SIZE,
        None,
        SINK,
        "With `clusters`: see `onSlowCluster`. Default: half of the high watermark.",
        at_least=0,
        at_most=MAX_INT64,
    ),
    Option(
        "slowClusterWait",
        DURATION,
        1_000,
        SINK,
        "Unless it blocks: a cluster that acknowledges nothing for so long is not waited for, but once in ten times as "
        "long; and how long one that does may hold up the others (and a tenth of the time after that). With discard, "
        "how much longer than the others it may take at the end of a task.",
        at_least=0,
        at_most=MAX_INT32,
    ),
    Option(
        "maxRecordAge",
        DURATION,
        None,
        SINK,
        "With `clusters`: rows are dropped that come with a `timestamp` older than this, and those that could not be "
        "delivered for as long; counted and reported.",
        at_least=1,
        at_most=MAX_INT32,
    ),
    Option(
        "onlyTopics",
        STRING,
        None,
        SINK,
        "With `clusters`: a regular expression that is found in the name of a row's topic, or the cluster does not "
        "get the row.",
    ),
    Option(
        "unlessHeader",
        HEADER,
        None,
        SINK,
        "With `clusters`: `key=value`, or `key=value,value`; a row that has this header, with any of the values, does "
        "not go to the cluster. For mirrors, whose records must not come back.",
    ),
    Option(
        "offsetMap",
        STRING,
        None,
        SINK,
        "With `clusters`: a compacted topic in the cluster, made before, that is told which offsets rows had where "
        "they were read (column `offset`) and which they got (`docs/mirror.md`). Needs idempotence, the default: "
        "without it a batch that is sent again may land behind later ones.",
    ),
    # Both: how to reach the cluster.
    Option(
        "kafka.bootstrap.servers",
        SERVERS,
        None,
        BOTH,
        "Brokers to ask first: `host:port,host:port`. Required.",
        aliases=("kafka.metadata.broker.list",),
    ),
    Option(
        "memoryBudget",
        SIZE,
        None,
        BOTH,
        "Memory for the data of one Python worker process: `64m`. Divided among what is received, decoded and waits to "
        "be written (`docs/memory.md`); sizes that are given by name go before it. Default: half of what "
        "`spark.executor.pyspark.memory` leaves; else a quarter of the container's limit (or of the machine), shared "
        "by all workers of an executor, as a bound for the sizes in this table.",
        at_least=4 * MIB,
        at_most=MAX_INT64,
    ),
    Option("kafka.client.id", STRING, "kafkasource", BOTH, "Name in the broker's logs, metrics and quotas."),
    Option(
        "kafka.broker.version.fallback",
        OLD_RELEASE,
        "auto",
        BOTH,
        "What a broker is that closes the connection when it is asked for its versions, as those before 0.10 do. `auto`"
        " finds out by further requests; a release spares them.",
    ),
    Option(
        "kafka.security.protocol",
        choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "PLAINTEXT",
        BOTH,
        "Only PLAINTEXT today; the others are refused until TLS and SASL are built.",
    ),
    Option(
        "kafka.request.timeout.ms",
        MILLISECONDS,
        30_000,
        BOTH,
        "One request, from first byte sent to last byte received.",
        at_least=1,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.default.api.timeout.ms",
        MILLISECONDS,
        60_000,
        BOTH,
        "One operation with all its retries; also how long the bootstrap servers are tried.",
        at_least=1,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.socket.connection.setup.timeout.ms",
        MILLISECONDS,
        10_000,
        BOTH,
        "Connecting to one address; doubles with each failure.",
        at_least=1,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.socket.connection.setup.timeout.max.ms",
        MILLISECONDS,
        30_000,
        BOTH,
        "Where that doubling stops.",
        at_least=1,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.reconnect.backoff.ms",
        MILLISECONDS,
        50,
        BOTH,
        "Wait before connecting again to a broker that failed; doubles, with jitter.",
        at_least=0,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.reconnect.backoff.max.ms",
        MILLISECONDS,
        1_000,
        BOTH,
        "Where that doubling stops.",
        at_least=0,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.retry.backoff.ms",
        MILLISECONDS,
        100,
        BOTH,
        "Wait before a failed request is sent again; doubles, with jitter.",
        at_least=0,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.retry.backoff.max.ms",
        MILLISECONDS,
        1_000,
        BOTH,
        "Where that doubling stops.",
        at_least=0,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.metadata.max.age.ms",
        MILLISECONDS,
        300_000,
        BOTH,
        "Ask for leaders and partitions again after this time, even when nothing failed.",
        at_least=0,
        at_most=MAX_INT32,
        aliases=("kafka.topic.metadata.refresh.interval.ms",),
    ),
    Option(
        "kafka.metadata.max.idle.ms",
        MILLISECONDS,
        300_000,
        SINK,
        "Stop asking about a topic that no task has written to for this long, such as one that was deleted; the next "
        "row for it asks again.",
        at_least=5_000,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.connections.max.idle.ms",
        MILLISECONDS,
        540_000,
        BOTH,
        "Close a connection unused for this long; -1: never.",
        at_least=-1,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.receive.buffer.bytes",
        BYTES,
        -1,
        BOTH,
        "The socket's receive buffer; -1: the system's.",
        at_least=-1,
        at_most=MAX_INT32,
        differs="65536 there; the system's own sizing is faster and right on long lines",
        aliases=("kafka.socket.receive.buffer.bytes",),
    ),
    Option(
        "kafka.send.buffer.bytes",
        BYTES,
        -1,
        BOTH,
        "The socket's send buffer; -1: the system's.",
        at_least=-1,
        at_most=MAX_INT32,
        differs="131072 there",
        aliases=("kafka.socket.send.buffer.bytes",),
    ),
    Option(
        "kafka.receive.message.max.bytes",
        BYTES,
        100 * MIB,
        BOTH,
        "A longer answer from a broker is refused, not allocated. librdkafka's name; Java has no bound.",
        at_least=1000,
        at_most=MAX_INT32,
    ),
    # Reading.
    Option(
        "kafka.isolation.level",
        choice("read_uncommitted", "read_committed"),
        "read_uncommitted",
        SOURCE,
        "read_committed: skip records of aborted transactions, stop before open ones.",
    ),
    Option(
        "kafka.max.partition.fetch.bytes",
        BYTES,
        1 * MIB,
        SOURCE,
        "Most bytes a fetch takes from one partition where the broker is near; up to `readAhead` times that where it "
        "is not. A larger first batch still comes whole (KIP-74).",
        at_least=1,
        at_most=MAX_INT32,
        aliases=("kafka.fetch.message.max.bytes",),
    ),
    Option(
        "kafka.fetch.max.bytes",
        BYTES,
        50 * MIB,
        SOURCE,
        "Most bytes of one fetch over all its partitions.",
        at_least=1,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.fetch.min.bytes",
        BYTES,
        1,
        SOURCE,
        "The broker waits until it has this many bytes, or fetch.max.wait.ms.",
        at_least=0,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.fetch.max.wait.ms",
        MILLISECONDS,
        500,
        SOURCE,
        "How long it waits for them.",
        at_least=0,
        at_most=MAX_INT32,
        aliases=("kafka.fetch.wait.max.ms",),
    ),
    Option(
        "kafka.client.rack",
        STRING,
        None,
        SOURCE,
        "Where executors are: records come from a replica of the same rack (availability zone) where the brokers' "
        "`replica.selector.class` allows (KIP-392). `env:NAME`: each executor takes it from its environment.",
    ),
    Option("kafka.check.crcs", BOOLEAN, True, SOURCE, "Check the CRC32C of every record batch."),
    Option(
        "kafka.max.decompressed.batch.bytes",
        BYTES,
        64 * MIB,
        SOURCE,
        "A record batch that inflates to more is refused (a few kB can inflate to gigabytes). Ours.",
        at_least=1024,
        at_most=MAX_INT32,
    ),
    # Writing.
    Option(
        "kafka.acks",
        choice("all", "-1", "1", "0"),
        "all",
        SINK,
        "Who must have a batch before it counts as written: all in-sync replicas, the leader, or nobody.",
        aliases=("kafka.request.required.acks",),
    ),
    Option(
        "kafka.enable.idempotence",
        BOOLEAN,
        None,
        SINK,
        "A batch sent twice is stored once. Default: true with acks=all, on brokers that have it (0.11 and newer).",
    ),
    Option(
        "kafka.compression.type",
        choice("none", "gzip", "snappy", "lz4", "zstd"),
        "none",
        SINK,
        "How record batches are compressed; lz4 costs next to nothing and spares disk and network.",
        aliases=("kafka.compression.codec",),
    ),
    Option("kafka.compression.gzip.level", GZIP_LEVEL, -1, SINK, "1 to 9; -1: the codec's own."),
    Option(
        "kafka.compression.lz4.level",
        INTEGER,
        9,
        SINK,
        "As in Java, where 9 is the fast compressor.",
        at_least=1,
        at_most=17,
    ),
    Option("kafka.compression.zstd.level", INTEGER, 3, SINK, "As in Java.", at_least=-131072, at_most=22),
    Option(
        "kafka.batch.size",
        BYTES,
        256 * KIB,
        SINK,
        "Size of a record batch before compression, and the unit of the buffer pool; less, but 16 KiB, where so many "
        "partitions are written to that buffer.memory could not hold two for each.",
        at_least=1 * KIB,
        at_most=MAX_INT32,
        aliases=("kafka.batch.num.bytes",),
        differs="16384 there; Spark hands over whole columns, larger batches cost less each",
    ),
    Option(
        "kafka.linger.ms",
        MILLISECONDS,
        100,
        SINK,
        "A batch that is not full waits this long for more; the end of a task flushes.",
        at_least=0,
        at_most=MAX_INT32,
        aliases=("kafka.queue.buffering.max.ms",),
        differs="5 there; since a task's end flushes, waiting for full batches delays no micro-batch",
    ),
    Option(
        "kafka.buffer.memory",
        BYTES,
        32 * MIB,
        SINK,
        "All unsent batches of one executor worker; where it is not given, less or more as the memory budget says.",
        at_least=1 * KIB,
        at_most=MAX_INT64,
    ),
    Option(
        "kafka.max.block.ms",
        MILLISECONDS,
        60_000,
        SINK,
        "How long a task waits for room in that memory, for metadata of a topic, and for a partition that rows name "
        "and the topic does not have yet.",
        at_least=0,
        at_most=MAX_INT32,
    ),
    Option(
        "kafka.max.request.size",
        BYTES,
        1 * MIB,
        SINK,
        "Most bytes of one produce request, so of one record too.",
        at_least=1 * KIB,
        at_most=MAX_INT32,
        aliases=("kafka.message.max.bytes",),
    ),
    Option(
        "kafka.delivery.timeout.ms",
        MILLISECONDS,
        120_000,
        SINK,
        "A batch not acknowledged within this time, retries included, fails the task.",
        at_least=1,
        at_most=MAX_INT32,
        aliases=("kafka.message.timeout.ms",),
    ),
    Option(
        "kafka.retries",
        INTEGER,
        MAX_INT32,
        SINK,
        "Times a batch is sent again; delivery.timeout.ms ends it first.",
        at_least=0,
        at_most=MAX_INT32,
        aliases=("kafka.message.send.max.retries",),
    ),
    Option(
        "kafka.max.in.flight.requests.per.connection",
        INTEGER,
        5,
        SINK,
        "Produce requests unanswered at a time on a connection. Order is kept with idempotence, or with 1; else what "
        "is sent again may land behind later batches, as in Java.",
        at_least=1,
        at_most=MAX_INT32,
        aliases=("kafka.max.in.flight",),
    ),
)

_DESERIALIZER = "keys and values are always binary; use cast('string'), from_json, from_avro on the columns"
_SERIALIZER = "write columns of string or binary; use to_json, to_avro or cast before the sink"

# Known options that this connector will never take, with what to use instead; the JVM connector refuses them too.
REFUSED: dict[str, str] = {
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.key.deserializer": _DESERIALIZER,
    "kafka.value.deserializer": _DESERIALIZER,
    "kafka.key.serializer": _SERIALIZER,
    "kafka.value.serializer": _SERIALIZER,
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets",
    "kafka.interceptor.classes": "it names a Java class; transform the DataFrame instead",
    "kafka.partitioner.class": "it names a Java class; use the option partitioner, or set the column `partition`",
    "kafka.transactional.id": "each task has its own; use deliveryGuarantee=exactly_once and transactionalIdPrefix",
    "kafka.metric.reporters": "it names a Java class",
}

# Options of the JVM connector or of Kafka that a later release honours. Refused until then rather than ignored.
NOT_YET: dict[str, str] = {
    "path": "load() and save() take no path; use the option subscribe to read, topic to write",
}
_NOT_YET_PREFIXES = {
    "kafka.ssl.": "TLS is not built yet",
    "kafka.sasl.": "SASL is not built yet",
}
# What Spark itself puts among a source's or sink's options.
SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "asyncprogresstrackingenabled"})

_BY_KEY = {key.lower(): option for option in OPTIONS for key in (option.name, *option.aliases)}
BY_NAME = {option.name: option for option in OPTIONS}


@dataclass(frozen=True)
class Options(Mapping[str, Any]):
    """Parsed options by canonical name, defaults filled in. Plain values: pickled into every task."""

    values_by_name: Mapping[str, Any]
    given: frozenset[str]  # canonical names that the user wrote
    sparks_own: Mapping[str, str] = field(default_factory=dict)  # of SPARKS_OWN what was given, by lower-case key

    def __getitem__(self, name: str) -> Any:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={self[name]!r}' for name in sorted(self.given))})"


# What means something only where rows go to several clusters.
OF_CLUSTERS = (
    "clusters",
    "partitioning",
    "producersPerCluster",
    "onSlowCluster",
    "highWatermarkBytes",
    "lowWatermarkBytes",
    "slowClusterWait",
    "maxRecordAge",
    "onlyTopics",
    "unlessHeader",
    "offsetMap",
)


def parse(written: Mapping[str, str], role: Role, *, of_cluster: bool = False) -> Options:
    """Check what the user wrote for one role (a read or a write) and fill in defaults.

    `of_cluster`: they are those of one cluster among several (`sink.clusters.targets`). Runs on the driver, contacts
    nobody. Raises OptionError; warns of unknown names.
    """
    values = {option.name: option.default for option in OPTIONS if role in option.used_by}
    given: dict[str, str] = {}
    for key, text in written.items():
        option = _known(key, role)
        if option is None:
            continue
        if option.name in given:
            raise OptionError(f"options {given[option.name]!r} and {key!r} are the same option; give one of them")
        given[option.name] = key
        values[option.name] = option.parse(str(text))
    sparks_own = {key.lower(): str(text) for key, text in written.items() if key.lower() in SPARKS_OWN}
    options = Options(values, frozenset(given), sparks_own)
    if not of_cluster:
        for name in OF_CLUSTERS:
            if name in given:
                raise OptionError(f"option {name!r} has a meaning only with 'clusters', which name where to write")
    _check_together(options, role)
    return options


def _known(key: str, role: Role) -> Option | None:
    """The row for a key as written; None when it is Spark's own or unknown (then warned of)."""
    lower = key.lower()
    option = _BY_KEY.get(lower)
    if option is not None and role in option.used_by:
        return option
    for name, instead in REFUSED.items():
        if name.lower() == lower:
            raise OptionError(f"Kafka option {name.removeprefix('kafka.')!r} is not supported: {instead}")
    for name, instead in NOT_YET.items():
        if name.lower() == lower:
            raise OptionError(f"option {name!r} is not supported yet: {instead}")
    for prefix, why in _NOT_YET_PREFIXES.items():
        if lower.startswith(prefix):
            raise OptionError(f"option {key!r} is not supported yet: {why}")
    if lower not in SPARKS_OWN:
        _warn_unknown(key, role)
    return None


def unknown(key: str, role: Role) -> str | None:
    """Why a key means nothing for this role, with a hint; None where it means something, if only to Spark."""
    option = _BY_KEY.get(key.lower())
    if (option is not None and role in option.used_by) or key.lower() in SPARKS_OWN:
        return None
    if option is not None:
        other = "writing" if role == "source" else "reading"
        return f"it is an option for {other}"
    names = {name.lower(): o.name for name, o in _BY_KEY.items() if role in o.used_by}
    near = difflib.get_close_matches(key.lower(), names, n=1)
    return f"did you mean {names[near[0]]!r}?" if near else "it has no effect"


def canonical(key: str) -> str:
    """A key as the table spells it; one that the table does not have, as it is."""
    option = _BY_KEY.get(key.lower())
    return key if option is None else option.name


def _warn_unknown(key: str, role: Role) -> None:
    hint = unknown(key, role)
    # Logged and not warned: this runs in a process of Spark's, where the line of code that a warning quotes is ours.
    log.warning("unknown option %r for a pykafka %s: %s", key, role, hint)


def _check_together(options: Options, role: Role) -> None:
    """Rules that name more than one option."""
    if options["kafka.bootstrap.servers"] is None:
        client = "consumer" if role == "source" else "producer"
        raise OptionError(f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {client}")
    if options["kafka.security.protocol"] != "PLAINTEXT":
        raise OptionError(
            f"option 'kafka.security.protocol': {options['kafka.security.protocol']} is not supported yet "
            "(TLS and SASL come in a later release); only PLAINTEXT listeners can be used"
        )
    if role == "sink":
        _check_sink(options)
    else:
        _check_source(options)


def _check_source(options: Options) -> None:
    most, least = options["maxOffsetsPerTrigger"], options["minOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}). "
            "Lower minOffsetsPerTrigger or raise maxOffsetsPerTrigger"
        )
    for low, high in (("minPartitions", "maxPartitions"), ("minRecordsPerPartition", "maxRecordsPerPartition")):
        if options[low] is not None and options[high] is not None and options[low] > options[high]:
            raise OptionError(f"option {low!r} ({options[low]}) is higher than {high!r} ({options[high]})")
    if options["addHeaders"] is not None and not options["packRecords"]:
        raise OptionError("option 'addHeaders' is for 'packRecords'=true; else add to the column `headers`")
    _check_group(options)


def _check_group(options: Options) -> None:
    group, prefix = options["kafka.group.id"], options["groupIdPrefix"]
    if group is not None and prefix is not None:
        log.warning("option 'groupIdPrefix' will be ignored, as option 'kafka.group.id' has been set")
    elif prefix is not None and not options["commitOffsets"]:
        log.warning("option 'groupIdPrefix' has no effect without commitOffsets=true: no group is used to read")
    if options["commitOffsets"] and group is None and prefix is None:
        raise OptionError("option 'commitOffsets' needs a group to commit to: set 'kafka.group.id'")
    if options["groupOwnership"] == "exclusive" and group is None:
        raise OptionError("option 'groupOwnership'=exclusive needs the group to own: set 'kafka.group.id'")
    if options["groupOwnership"] == "exclusive" and options["commitOffsets"] is False:
        raise OptionError("option 'groupOwnership'=exclusive is for committing: it goes not with 'commitOffsets'=false")


def _check_sink(options: Options) -> None:
    _check_guarantee(options)
    if options["createTopic"] is not None and options["topic"] is None:
        raise OptionError("option 'createTopic' needs the option 'topic': topics that rows name are not created")
    acks_all = options["kafka.acks"] in ("all", "-1")
    if options["kafka.enable.idempotence"] and not acks_all:
        raise OptionError(f"option 'kafka.enable.idempotence' needs 'kafka.acks'=all, got {options['kafka.acks']!r}")
    if options["kafka.enable.idempotence"] and options["kafka.max.in.flight.requests.per.connection"] > 5:
        raise OptionError(
            "option 'kafka.enable.idempotence' needs 'kafka.max.in.flight.requests.per.connection' of at most 5, "
            f"got {options['kafka.max.in.flight.requests.per.connection']}"
        )
    shortest = options["kafka.linger.ms"] + options["kafka.request.timeout.ms"]
    if options["kafka.delivery.timeout.ms"] < shortest:
        raise OptionError(
            f"option 'kafka.delivery.timeout.ms' ({options['kafka.delivery.timeout.ms']}) must be at least "
            f"'kafka.linger.ms' + 'kafka.request.timeout.ms' ({shortest})"
        )
    if options["kafka.batch.size"] > options["kafka.buffer.memory"]:
        raise OptionError(
            f"option 'kafka.batch.size' ({options['kafka.batch.size']}) is larger than "
            f"'kafka.buffer.memory' ({options['kafka.buffer.memory']})"
        )


_OF_EXACTLY_ONCE = ("transactionalIdPrefix", "atomicBatch", "lostTransactions", "kafka.transaction.timeout.ms")


def _check_guarantee(options: Options) -> None:
    if options["deliveryGuarantee"] != "exactly_once":
        for name in _OF_EXACTLY_ONCE:
            if name in options.given and options[name] is not False:
                raise OptionError(f"option {name!r} has a meaning only with 'deliveryGuarantee'=exactly_once")
        return
    in_flight = options["kafka.max.in.flight.requests.per.connection"]
    for name, wanted, met in (
        ("kafka.acks", "all", options["kafka.acks"] in ("all", "-1")),
        ("kafka.enable.idempotence", "true", options["kafka.enable.idempotence"] is not False),
        ("kafka.max.in.flight.requests.per.connection", "of at most 5", in_flight <= 5),
    ):
        if not met:
            raise OptionError(f"option 'deliveryGuarantee'=exactly_once needs {name!r} {wanted}, got {options[name]!r}")
    if options.sparks_own.get("asyncprogresstrackingenabled", "").strip().lower() == "true":
        raise OptionError(
            "option 'asyncProgressTrackingEnabled' cannot be had with 'deliveryGuarantee'=exactly_once: a micro-batch "
            "could be committed in Kafka that Spark's checkpoint does not know of"
        )


def markdown_table(part: Literal["source", "sink", "both"]) -> str:
    """A table of docs/options.md: the options of reading alone, of writing alone, or of both."""
    roles = {"source", "sink"} if part == "both" else {part}
    lines = ["| option | type | default | meaning |", "|---|---|---|---|"]
    for option in OPTIONS:
        if set(option.used_by) != roles:
            continue
        default = (
            ""
            if option.default is None
            else f"`{str(option.default).lower() if isinstance(option.default, bool) else option.default}`"
        )
        names = f"`{option.name}`" + "".join(f" (alias `{alias}`)" for alias in option.aliases)
        doc = option.doc + (f" Java or the JVM connector: {option.differs}." if option.differs else "")
        lines.append(f"| {names} | {option.type.name} | {default} | {doc} |")
    return "\n".join(lines)
