"""THE table of options: what a user may write after `.option(`, with type, default, bounds and who uses it.

Names are those of Spark's JVM connector; `kafka.*` are those of Kafka's Java clients, with librdkafka's as aliases.
Keys are case-insensitive, as Spark's are. Validation (here), docs/options.md (`markdown_table`) and the tests all read
`OPTIONS`. Everything here happens on the driver, before a broker is contacted. No option is accepted and then ignored:
what we cannot honour is an error that says what to use instead (`REFUSED`), what nobody knows is a warning
with the nearest name.
"""

from __future__ import annotations

from kafkasource.options.option import BOTH, SINK, SOURCE, Option, Other, Refused
from kafkasource.options.types import (
    BOOLEAN,
    BYTES,
    DURATION,
    FUNCTION,
    GZIP_LEVEL,
    HEADER,
    HEADERS,
    INTEGER,
    ISOLATION_LEVEL,
    JSON,
    KIB,
    MAX_INT32,
    MAX_INT64,
    MIB,
    MILLISECONDS,
    NEW_TOPIC,
    OLD_RELEASE,
    PARTITIONER,
    SERVERS,
    SIZE,
    STRING,
    TEXT,
    TIMESTAMP,
    choice,
)
from kafkasource.types import IsolationLevel

_CLUSTERS = Other("clusters")
_EXACTLY_ONCE = Other("deliveryGuarantee", ("exactly_once",))
_MAP_ORDER = (
    "without idempotence a batch that is sent again can land behind later ones, and the map would be wrong. In a "
    "mirror's file, offset_map = false leaves out the map of a flow"
)

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
        only=(Other("packRecords", (True,), why="rows that are not packed have the column `headers` for that"),),
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
        only=(Other("kafka.group.id", mine=("exclusive",), why="that is the group to own"),),
        not_with=(
            Other("commitOffsets", (False,), mine=("exclusive",), why="a query owns a group in order to commit to it"),
        ),
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
        only=(Other("topic", why="the sink does not create the topics that rows name"),),
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
        per_cluster=False,
    ),
    # How often each row arrives.
    Option(
        "deliveryGuarantee",
        choice("at_least_once", "exactly_once"),
        "at_least_once",
        SINK,
        "exactly_once: each task writes in a Kafka transaction; all are committed with the micro-batch or the batch "
        "write, and readers with `isolation.level=read_committed` see every row once. Others see aborted copies too.",
        only=(
            Other("kafka.acks", ("all", "-1"), mine=("exactly_once",)),
            Other("kafka.max.in.flight.requests.per.connection", at_most=5, mine=("exactly_once",)),
        ),
        not_with=(
            Other("kafka.enable.idempotence", (False,), mine=("exactly_once",), why="transactions need it"),
            Other(
                "asyncProgressTrackingEnabled",
                ("true",),
                mine=("exactly_once",),
                why="Kafka could hold a committed micro-batch that Spark's checkpoint does not know",
            ),
        ),
        per_cluster=False,
    ),
    Option(
        "transactionalIdPrefix",
        STRING,
        None,
        SINK,
        "With exactly_once: how the ids of the query's transactions begin. It is the query's identity: a second query "
        "that has the same is refused. Default: `kafkasource-` and Spark's id of the query, read from the file "
        "`metadata` at `checkpointLocation`; a batch write has none, so it must give this.",
        only=(_EXACTLY_ONCE,),
        per_cluster=False,
    ),
    Option(
        "atomicBatch",
        BOOLEAN,
        False,
        SINK,
        "With exactly_once: one transaction for all tasks, so that readers see a micro-batch whole or not at all. "
        "Each topic-partition must then be written by one task only, and no task may be run again.",
        only=(
            _EXACTLY_ONCE,
            Other("producersPerCluster", at_most=1, why="several producers of a cluster would write to one partition"),
        ),
        per_cluster=False,
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
        only=(_EXACTLY_ONCE,),
        per_cluster=False,
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
        only=(_EXACTLY_ONCE,),
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
        per_cluster=False,
    ),
    Option(
        "partitioning",
        choice("source", "key"),
        "source",
        SINK,
        "With `clusters`. source: the partition in the column `partition` where there is one, as in a mirror, else as "
        "`partitioner` says; key: the column counts for nothing.",
        only=(_CLUSTERS,),
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
        only=(_CLUSTERS,),
    ),
    Option(
        "onSlowCluster",
        choice("block", "discard", "fail"),
        "block",
        SINK,
        "With `clusters`: when a cluster's queue is above `highWatermarkBytes` and the others wait because of it. "
        "block: reading waits for it, however long it takes unless `kafka.delivery.timeout.ms` is given; discard: its "
        "oldest batches are dropped down to `lowWatermarkBytes`, counted and reported; fail: the task fails.",
        only=(_CLUSTERS,),
        not_with=(
            Other(
                "deliveryGuarantee",
                ("exactly_once",),
                mine=("discard", "fail"),
                why="rows that the sink discards do not arrive once",
            ),
        ),
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
        only=(_CLUSTERS,),
    ),
    Option(
        "lowWatermarkBytes",
        SIZE,
        None,
        SINK,
        "With `clusters`: see `onSlowCluster`. Default: half of the high watermark.",
        at_least=0,
        at_most=MAX_INT64,
        only=(_CLUSTERS,),
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
        only=(_CLUSTERS,),
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
        only=(_CLUSTERS,),
        not_with=(Other("deliveryGuarantee", ("exactly_once",), why="rows that the sink drops do not arrive once"),),
    ),
    Option(
        "onlyTopics",
        STRING,
        None,
        SINK,
        "With `clusters`: a regular expression that is found in the name of a row's topic, or the cluster does not "
        "get the row.",
        only=(_CLUSTERS,),
    ),
    Option(
        "unlessHeader",
        HEADER,
        None,
        SINK,
        "With `clusters`: `key=value`, or `key=value,value`; a row that has this header, with any of the values, does "
        "not go to the cluster. For mirrors, whose records must not come back.",
        only=(_CLUSTERS,),
    ),
    Option(
        "offsetMap",
        STRING,
        None,
        SINK,
        "With `clusters`: a compacted topic in the cluster, made before, that is told which offsets rows had where "
        "they were read (column `offset`) and which they got (`docs/mirror.md`). Needs idempotence, the default: "
        "without it a batch that is sent again may land behind later ones.",
        only=(_CLUSTERS,),
        not_with=(
            Other("kafka.enable.idempotence", (False,), why=_MAP_ORDER),
            Other("kafka.acks", ("1", "0"), why=_MAP_ORDER),
        ),
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
        per_cluster=False,
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
        ISOLATION_LEVEL,
        IsolationLevel.READ_UNCOMMITTED,
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
        only=(
            Other("kafka.acks", ("all", "-1"), mine=(True,)),
            Other("kafka.max.in.flight.requests.per.connection", at_most=5, mine=(True,)),
        ),
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

# Options of Kafka and of the JVM connector that this connector refuses.
REFUSED: tuple[Refused, ...] = (
    Refused("kafka.auto.offset.reset", "use startingOffsets"),
    Refused("kafka.key.deserializer", _DESERIALIZER),
    Refused("kafka.value.deserializer", _DESERIALIZER),
    Refused("kafka.key.serializer", _SERIALIZER),
    Refused("kafka.value.serializer", _SERIALIZER),
    Refused("kafka.enable.auto.commit", "Spark's checkpoint keeps the offsets"),
    Refused("kafka.interceptor.classes", "it names a Java class; transform the DataFrame instead"),
    Refused(
        "kafka.partitioner.class", "it names a Java class; use the option partitioner, or set the column `partition`"
    ),
    Refused(
        "kafka.transactional.id", "each task has its own; use deliveryGuarantee=exactly_once and transactionalIdPrefix"
    ),
    Refused("kafka.metric.reporters", "it names a Java class"),
    Refused("kafka.ssl.", "TLS is not built yet", later=True),
    Refused("kafka.sasl.", "SASL is not built yet", later=True),
    Refused("path", "load() and save() take no path; use the option subscribe to read, topic to write"),
)

# What Spark itself puts among a source's or sink's options.
SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "asyncprogresstrackingenabled"})

BY_KEY = {key.lower(): option for option in OPTIONS for key in (option.name, *option.aliases)}
BY_NAME = {option.name: option for option in OPTIONS}
