"""THE table of options that a user may set: type, default, bounds, and whether reads or writes use it.

Names are those of Spark's JVM connector; `kafka.*` are those of Kafka's Java clients, with librdkafka's as aliases.
Keys are case-insensitive, as Spark's are. The checks (`parse`), docs/options.md (`markdown`) and the tests all read
this table. A row stands in the section, and at the place, where docs/options.md shows it. The connector accepts no
option that it ignores. An option that it cannot honour is an error that says what to use instead (`REFUSED`). An
unknown option is a warning with the most similar name, or an error (`unknownOptions`).
"""

from __future__ import annotations

from dataclasses import replace

from kafkasource.kafka.security.option import (
    MAX_INT32,
    MAX_INT64,
    SINK,
    SOURCE,
    TEXT,
    Option,
    Other,
    Place,
    RefusedOption,
)
from kafkasource.options.registry import REGISTRY_OPTIONS, REGISTRY_REFUSED
from kafkasource.options.security import SECURITY_REFUSED, SECURITY_SECTIONS
from kafkasource.options.types import (
    BAD_RECORDS,
    BOOLEAN,
    BYTES,
    COLUMNS,
    DURATION,
    FORMAT,
    FORMATS,
    FUNCTION,
    GZIP_LEVEL,
    HEADERS,
    INTEGER,
    ISOLATION_LEVEL,
    JSON,
    KIB,
    MIB,
    MILLISECONDS,
    NAMES,
    NEW_TOPIC,
    OLD_RELEASE,
    PARTITIONER,
    REGISTERED_FORMATS,
    SCHEMA_FORMATS,
    SERVERS,
    SIZE,
    STRING,
    TIMESTAMP,
    choice,
)
from kafkasource.types import IsolationLevel

# How `minRecordsPerPartition` shares small ranges out to tasks, where the user sets nothing.
TASK_OFFSETS = 25_000  # the least that a task of a stream reads
RANGE_COST = 500  # in offsets: 1,000 ranges of one record cost more than one range of 1,000, as each takes a fetch
OFFSET_BYTES = 1342  # a record of this size costs as much as one offset. TASK_OFFSETS of them are 32 MiB

_BATCH_AND_READER: tuple[Place, ...] = ("batch", "reader")  # for streams
_READER: tuple[Place, ...] = ("reader",)  # for queries of Spark
_CLUSTERS = Other("clusters")
_EXACTLY_ONCE = Other("deliveryGuarantee", ("exactly_once",))
_COPIED = "packed records are copied as the bytes that they are"
_NO_RETRIES = "Kafka's producer is not idempotent without retries"
_NO_MAP = "In a mirror's file, offset_map = false leaves out the map of a flow"
_MAP_ORDER = (
    f"without idempotence a batch that is sent again can land behind later ones, and the map would be wrong. {_NO_MAP}"
)

SECTIONS: dict[str, tuple[Option, ...]] = {}
"""The tables of docs/options.md, in the order in which users need them: what every job sets comes first."""

_REGISTRY_URL, *_REGISTRY = REGISTRY_OPTIONS  # the URL is among the typed rows, the others have a page


def _reads(*rows: Option) -> tuple[Option, ...]:
    return tuple(replace(row, used_by=SOURCE) for row in rows)


def _writes(*rows: Option) -> tuple[Option, ...]:
    return tuple(replace(row, used_by=SINK) for row in rows)


SECTIONS["every job"] = (
    Option(
        "kafka.bootstrap.servers",
        SERVERS,
        "Brokers to contact first: `host:port,host:port`. Required.",
        aliases=("kafka.metadata.broker.list",),
    ),
    Option("subscribe", TEXT, "Topics to read, separated by commas.", used_by=SOURCE),
    Option(
        "startingOffsets",
        JSON,
        "Start of a new query; a restart continues from the checkpoint. `earliest` and `latest` hold for "
        'all partitions. JSON names partitions, `{"topic":{"0":23,"1":-2}}` (-2: earliest, -1: latest), or '
        'topics, `{"topic":"earliest"}`; `"*"` is all that it does not name. `committed`: where the group '
        "`kafka.group.id` stands; `committed:earliest`, `committed:latest`: for partitions without a commit. "
        "Default: `earliest` for a batch read, `latest` for a stream.",
        used_by=SOURCE,
    ),
    Option(
        "kafka.security.protocol",
        choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "SSL: TLS. SASL_SSL: TLS, and the client logs in ([options](options-security.md)). SASL_PLAINTEXT: it logs in "
        "without TLS. Default: PLAINTEXT, or SASL_SSL where `kafka.auth` names a vendor.",
    ),
    Option(
        "topic", STRING, "Topic for all rows. Without it, each row names its topic in the column `topic`.", used_by=SINK
    ),
    Option(
        "createTopic",
        NEW_TOPIC,
        "Create that topic if it does not exist: `partitions=6,replication=3`, and any topic setting, such as "
        "`cleanup.policy=compact`. The broker's defaults apply to everything else. The sink never creates topics "
        "that rows name, because a typo in the data would create one.",
        only=(Other("topic", why="the sink does not create the topics that rows name"),),
        used_by=SINK,
    ),
)

SECTIONS["topics"] = _reads(
    Option(
        "subscribePattern",
        TEXT,
        "Topics to read: a Java regular expression. The query reads each topic whose name contains a match.",
    ),
    Option(
        "failOnDeletedTopic",
        BOOLEAN,
        "Whether a deleted topic that the pattern matched counts as lost records (`failOnDataLoss`). `false`: the "
        "query warns and reads the other topics, whatever `failOnDataLoss` is. A topic that was created again before "
        "the query missed it still counts, and so do records that expired.",
        default=True,
        only=(Other("subscribePattern", mine=(False,), why="topics that are named must exist"),),
        no_effect_in=_BATCH_AND_READER,
    ),
    Option("assign", JSON, 'Partitions to read: `{"topic":[0,1]}`.'),
)

SECTIONS["start and end"] = _reads(
    Option(
        "startingTimestamp",
        TIMESTAMP,
        "Same as `startingOffsetsByTimestamp`, with one timestamp in ms for all partitions. Takes precedence over "
        "`startingOffsetsByTimestamp` and `startingOffsets`.",
        at_least=-2,
        at_most=MAX_INT64,
        complaint="Expected a single long value",
    ),
    Option(
        "startingOffsetsByTimestamp",
        JSON,
        "A new query starts in each partition at the first record with this timestamp or a later one, "
        '`{"topic":{"0":1600000000000}}` in ms. Takes precedence over `startingOffsets`.',
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        "Decides about partitions whose records are all older than the starting timestamp: `error` "
        "fails, `latest` starts at the partition's end.",
        default="error",
    ),
    Option(
        "endingOffsets",
        JSON,
        "End of the read, exclusive: `latest` (the default) or JSON as for `startingOffsets`. For batch reads, "
        "and for streams under `trigger(availableNow=True)`.",
    ),
    Option(
        "endingTimestamp",
        TIMESTAMP,
        "Same as `endingOffsetsByTimestamp`, with one timestamp in ms for all partitions. Takes precedence over "
        "`endingOffsetsByTimestamp` and `endingOffsets`.",
        at_least=-2,
        at_most=MAX_INT64,
        complaint="Expected a single long value",
    ),
    Option(
        "endingOffsetsByTimestamp",
        JSON,
        "The read ends before the first record of each partition with this timestamp or a later one, or at the "
        "partition's end when there is none. JSON as for `startingOffsetsByTimestamp`. Takes precedence over "
        "`endingOffsets`, and works for the same reads.",
    ),
    Option(
        "trigger",
        choice("processingTime", "availableNow", "once"),
        "For Spark 4.0 and 4.1: the query's trigger, `processingTime`, `availableNow` or `once`. Limits and a "
        "stream's ending offsets need it there ([releases of Spark](spark-releases.md)).",
        no_effect_in=_BATCH_AND_READER,
    ),
    Option(
        "stopFile",
        TEXT,
        "Path of a file on the driver's machine. When somebody creates that file, the query plans no "
        "further micro-batch. After the last micro-batch is committed, the source deletes the file; `query.stop()` "
        "then cancels nothing.",
        no_effect_in=_BATCH_AND_READER,
    ),
)

SECTIONS["losses"] = _reads(
    Option(
        "failOnDataLoss",
        BOOLEAN,
        "Whether the query stops when records that it had to read are gone, because they expired or their topic "
        "was deleted. `false`: it warns and continues.",
        default=True,
    ),
    Option(
        "failedOverTo",
        STRING,
        "The id of the cluster to which the query has failed over, if that keeps offsets ([how to use "
        "it](reading.md#a-new-cluster-with-the-same-offsets)). The source checks only that there are as many records.",
        no_effect_in=_BATCH_AND_READER,
    ),
)

SECTIONS["micro-batches"] = _reads(
    Option(
        "maxOffsetsPerTrigger",
        INTEGER,
        "The most offsets that a micro-batch reads, approximately. Each partition gets a share in "
        "proportion to the records that wait in it.",
        at_least=1,
        at_most=MAX_INT64,
        no_effect_in=_BATCH_AND_READER,
    ),
    Option(
        "maxBytesPerTrigger",
        SIZE,
        "The most bytes that a micro-batch reads, approximately, as the brokers store them (compressed): `64m`. The "
        "source estimates the size of a record from small samples. A micro-batch reads at least one record.",
        at_least=1,
        at_most=MAX_INT64,
        no_effect_in=_BATCH_AND_READER,
    ),
    Option(
        "minOffsetsPerTrigger",
        INTEGER,
        "A micro-batch waits until this many offsets are available, or until `maxTriggerDelay` has passed.",
        at_least=1,
        at_most=MAX_INT64,
        no_effect_in=_BATCH_AND_READER,
    ),
    Option(
        "maxTriggerDelay",
        DURATION,
        "The longest time that `minOffsetsPerTrigger` may delay a micro-batch.",
        default=900_000,
        at_least=0,
        at_most=MAX_INT64,
        no_effect_in=_BATCH_AND_READER,
    ),
)

SECTIONS["tasks"] = _reads(
    Option(
        "minPartitions",
        INTEGER,
        "At least this many input partitions (tasks), approximately. The source cuts large ranges of offsets, the "
        "largest into the most pieces. Small ranges then do not share a task, unless `minRecordsPerPartition` or "
        "`maxPartitions` is set.",
        at_least=1,
        complaint="minPartitions must be positive",
        no_effect_in=_READER,
    ),
    Option(
        "maxPartitions",
        INTEGER,
        "At most this many input partitions (tasks). Ranges of several topic-partitions then share a task; the "
        "source balances tasks by size, and each range stays in order. Default: one task for each topic-partition "
        "that has records.",
        at_least=1,
        no_effect_in=_READER,
    ),
    Option(
        "minRecordsPerPartition",
        INTEGER,
        "Small ranges share an input partition (task) until it has about this many offsets, because each Python "
        "task costs about 10 ms. `1`: each topic-partition gets a task of its own. "
        f"Default: 1 for a batch read; for a stream {TASK_OFFSETS} offsets or about 32 MiB, whichever is "
        "less. If you set a number, only offsets count.",
        at_least=1,
        at_most=MAX_INT64,
        no_effect_in=_READER,
    ),
    Option(
        "maxRecordsPerPartition",
        INTEGER,
        "The source cuts a range of more offsets than this into equal pieces. Each piece gets an input partition "
        "(task) of its own, unless `minRecordsPerPartition` or `maxPartitions` is set.",
        at_least=1,
        at_most=MAX_INT64,
        complaint="maxRecordsPerPartition must be positive",
        no_effect_in=_READER,
    ),
)

SECTIONS["columns"] = _reads(
    Option("includeHeaders", BOOLEAN, "Add the column `headers`.", default=False),
    Option(
        "columns",
        COLUMNS,
        "The columns of the DataFrame, in this order: `value,timestamp`. Default: all but `headers`. Name the "
        "columns that the job uses: the source makes no others, which saves CPU. `.schema(...)` can name them in "
        "place of this option.",
        not_with=(Other("packRecords", (True,), why="packed records have only the column `records`"),),
    ),
    Option(
        "pushDownPredicate",
        BOOLEAN,
        "For batch reads: use the query's filters on `topic`, `partition`, `offset` and (lower bounds only) "
        "`timestamp` to read fewer records, and from Spark 4.4 on its limit. Needs Spark's setting "
        "`spark.sql.python.filterPushdown.enabled`. Spark 4.2 and 4.3 reuse the plan of one filter in every query on "
        "the same DataFrame, so set this only for a `load()` that is used once.",
        default=False,
        no_effect_in=_READER,
    ),
    Option(
        "packRecords",
        BOOLEAN,
        "For jobs that only copy records, such as `pykafka mirror`: the DataFrame has one column, `records`, whose"
        " values hold about 1 MiB of records each. The sink takes that column in place of all others. Spark's "
        "progress counts these values.",
        default=False,
        not_with=tuple(Other(name, FORMATS[1:], why=_COPIED) for name in ("valueFormat", "keyFormat")),
        no_effect_in=_READER,
    ),
    Option(
        "addHeaders",
        HEADERS,
        'Headers that the source adds to each record, after the record\'s own: `{"from":"east"}`. In a value, '
        "`${topic}`, `${partition}` and `${offset}` stand for the place where the record was read.",
        only=(Other("packRecords", (True,), why="rows that are not packed have the column `headers` for that"),),
        no_effect_in=_READER,
    ),
)

SECTIONS["group"] = _reads(
    Option(
        "kafka.group.id",
        STRING,
        "The consumer group that `startingOffsets=committed` starts from and `commitOffsets` commits to. The source "
        "does not read as a member of the group.",
    ),
    Option(
        "commitOffsets",
        BOOLEAN,
        "A streaming query commits the offsets of finished micro-batches to its group, for lag monitors. A commit "
        "that fails is a warning. Default: true when `kafka.group.id` is set.",
        no_effect_in=_BATCH_AND_READER,
    ),
    Option(
        "groupIdPrefix",
        STRING,
        "The name of the group that `commitOffsets=true` commits to when `kafka.group.id` is not set.",
        no_effect_in=_READER,
    ),
    Option(
        "groupOwnership",
        choice("shared", "exclusive"),
        "`exclusive`: a streaming query joins `kafka.group.id` as its only member, and ends with an error if the "
        "broker admits another one ([whom it refuses](reading.md#the-progress-of-a-query)). `shared`: the query "
        "commits without being a member.",
        default="shared",
        only=(Other("kafka.group.id", mine=("exclusive",), why="that is the group to own"),),
        not_with=(
            Other("commitOffsets", (False,), mine=("exclusive",), why="a query owns a group in order to commit to it"),
        ),
        no_effect_in=_BATCH_AND_READER,
    ),
    Option(
        "kafka.group.protocol",
        choice("classic", "consumer"),
        "The protocol of a group's members: queries with `groupOwnership=exclusive` ([more]"
        "(reading.md#the-progress-of-a-query)), `pykafka read --group`, `GroupMember`. Other reads have no members. "
        "`consumer` (KIP-848): the coordinator assigns partitions; it needs Kafka 4.0. `classic`: the members do.",
        default="classic",
        no_effect_in=("batch",),
    ),
    Option(
        "kafka.group.remote.assignor",
        STRING,
        "How the coordinator assigns: `uniform` or `range`. Default: the coordinator chooses.",
        only=(Other("kafka.group.protocol", ("consumer",)),),
        no_effect_in=("batch",),
    ),
)

SECTIONS["fetching"] = _reads(
    Option(
        "kafka.isolation.level",
        ISOLATION_LEVEL,
        "`read_committed`: skip records of aborted transactions, and stop before open transactions.",
        default=IsolationLevel.READ_UNCOMMITTED,
    ),
    Option(
        "readAhead",
        INTEGER,
        "How far a task reads ahead of a broker that is far away. A fetch grows to at most this many times "
        "`kafka.max.partition.fetch.bytes`, within `kafka.fetch.max.bytes`. A task holds at most twice as much of "
        "fetched data.",
        default=8,
        at_least=1,
        at_most=1000,
    ),
    Option(
        "kafka.max.partition.fetch.bytes",
        BYTES,
        "The most bytes that a fetch takes from one partition, before `readAhead`. A range's first fetch takes at most "
        "1 MiB, each later one twice as much. A first record batch that is larger still arrives complete (KIP-74).",
        default=4 * MIB,
        at_least=1,
        aliases=("kafka.fetch.message.max.bytes",),
        differs="1048576. Reads of large records are a fifth faster",
    ),
    Option(
        "kafka.fetch.max.bytes",
        BYTES,
        "The most bytes of one fetch, all its partitions together.",
        default=50 * MIB,
        at_least=1,
    ),
    Option(
        "kafka.fetch.min.bytes",
        BYTES,
        "The broker answers a fetch when it has this many bytes, or after `kafka.fetch.max.wait.ms`.",
        default=1,
        at_least=0,
    ),
    Option(
        "kafka.fetch.max.wait.ms",
        MILLISECONDS,
        "How long the broker waits for `kafka.fetch.min.bytes`.",
        default=500,
        at_least=0,
        aliases=("kafka.fetch.wait.max.ms",),
    ),
    Option(
        "kafka.client.rack",
        STRING,
        "The rack (availability zone) of the executors. They then read from a replica in the same rack, if the "
        "brokers' `replica.selector.class` allows it (KIP-392). `env:NAME`: each executor takes the rack from this "
        "environment variable.",
    ),
    Option("kafka.check.crcs", BOOLEAN, "Check the CRC32C of every record batch.", default=True),
    Option(
        "kafka.max.decompressed.batch.bytes",
        BYTES,
        "The task refuses a record batch that decompresses to more bytes than this, because a few kB can grow to "
        "gigabytes.",
        default=64 * MIB,
        at_least=1024,
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        MILLISECONDS,
        "A task fails when it still has records to read from a partition and has received none for this long. While "
        "the partition has no leader, or no broker answers, it fails up to `kafka.default.api.timeout.ms` later.",
        default=120_000,
        at_least=1,
    ),
    Option(
        "fetchOffset.numRetries",
        INTEGER,
        "How many times the driver tries to get topics and offsets before the query fails. Each try may take "
        "`kafka.default.api.timeout.ms`.",
        default=3,
        at_least=1,
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        MILLISECONDS,
        "How long the driver waits between these tries.",
        default=1_000,
        at_least=0,
    ),
)

SECTIONS["writing"] = _writes(
    Option(
        "kafka.compression.type",
        choice("none", "gzip", "snappy", "lz4", "zstd"),
        "How the producer compresses record batches: `none`, `gzip`, `snappy`, `lz4` or `zstd`. lz4 costs almost no "
        "CPU and saves disk and network.",
        default="none",
        aliases=("kafka.compression.codec",),
    ),
    Option("kafka.compression.gzip.level", GZIP_LEVEL, "1 to 9. -1: the codec's default.", default=-1),
    Option(
        "kafka.compression.lz4.level",
        INTEGER,
        "The same levels as in Java; 9 is the fast compressor.",
        default=9,
        at_least=1,
        at_most=17,
    ),
    Option(
        "kafka.compression.zstd.level", INTEGER, "The same levels as in Java.", default=3, at_least=-131072, at_most=22
    ),
    Option(
        "kafka.acks",
        choice("all", "-1", "1", "0"),
        "The replicas that must have a batch before it counts as written: all in-sync replicas (`all`, `-1`), only "
        "the leader (`1`), or none (`0`).",
        default="all",
        aliases=("kafka.request.required.acks",),
    ),
    Option(
        "partitioner",
        PARTITIONER,
        "Chooses the partition of a row that has none in the column `partition`. `murmur2`: by key, as Kafka's "
        "Java producer does; rows without a key fill one batch after the other. `murmur2_round_robin`: rows "
        "without a key take turns. `module:function`: [yours](writing.md#a-partitioner-of-your-own).",
        default="murmur2",
    ),
    Option(
        "commitListener",
        FUNCTION,
        "`module:function`: your function, called on the driver after each micro-batch or batch write with what each "
        "topic-partition got ([a report of each batch](writing.md#a-report-of-each-batch)).",
        per_cluster=False,
    ),
    Option(
        "kafka.batch.size",
        BYTES,
        "Size of a record batch before compression, and the unit of buffer memory. The producer uses smaller "
        "batches, down to 16 KiB, where `kafka.buffer.memory` could not hold two for each partition. 0: each "
        "record has a batch of its own.",
        default=256 * KIB,
        at_least=0,
        aliases=("kafka.batch.num.bytes",),
        differs="16384. Larger batches cost less for each record",
    ),
    Option(
        "kafka.linger.ms",
        MILLISECONDS,
        "How long a batch that is not full waits for more records.",
        default=100,
        at_least=0,
        aliases=("kafka.queue.buffering.max.ms",),
        differs="5. The end of a task sends all batches at once, so waiting for full ones delays no micro-batch",
    ),
    Option(
        "kafka.buffer.memory",
        BYTES,
        "Memory for all unsent batches of one executor worker. If you do not set it, the memory budget may make it "
        "smaller or larger.",
        default=32 * MIB,
        at_least=1 * KIB,
        at_most=MAX_INT64,
    ),
    Option(
        "kafka.max.block.ms",
        MILLISECONDS,
        "How long a task waits for free buffer memory, for metadata of a topic, or for a partition that a row "
        "names and that the topic does not have yet.",
        default=60_000,
        at_least=0,
    ),
    Option(
        "kafka.max.request.size",
        BYTES,
        "The most bytes of one produce request, and so of one record.",
        default=1 * MIB,
        at_least=1 * KIB,
        aliases=("kafka.message.max.bytes",),
    ),
    Option(
        "kafka.delivery.timeout.ms",
        MILLISECONDS,
        "A task fails when a batch is not acknowledged within this time, all retries included. It must be at least "
        "`kafka.linger.ms` + `kafka.request.timeout.ms`; the default rises to that, with a warning.",
        default=120_000,
        at_least=1,
        aliases=("kafka.message.timeout.ms",),
    ),
    Option(
        "kafka.retries",
        INTEGER,
        "How many times the producer sends a batch again. `kafka.delivery.timeout.ms` usually ends the retries first.",
        default=MAX_INT32,
        at_least=0,
        aliases=("kafka.message.send.max.retries",),
    ),
    Option(
        "kafka.enable.idempotence",
        BOOLEAN,
        "The broker stores a batch once, even when the producer sends it twice. Default: true with "
        "`kafka.acks=all`, on brokers that can do it (0.11 and newer). With `kafka.retries=0` it is false, as in Java.",
        only=(
            Other("kafka.acks", ("all", "-1"), mine=(True,)),
            Other("kafka.max.in.flight.requests.per.connection", at_most=5, mine=(True,)),
        ),
        not_with=(Other("kafka.retries", (0,), mine=(True,), why=_NO_RETRIES),),
    ),
    Option(
        "kafka.max.in.flight.requests.per.connection",
        INTEGER,
        "How many produce requests a connection may have without an answer. Order is kept with idempotence, which "
        "lets a partition have five at most, or with 1. Otherwise a batch that is sent again may land behind later "
        "batches, as in Java.",
        default=5,
        at_least=1,
        aliases=("kafka.max.in.flight",),
    ),
    Option(
        "kafka.metadata.max.idle.ms",
        MILLISECONDS,
        "The client stops asking about a topic that no task has written to for this long, such as a deleted topic.",
        default=300_000,
        at_least=5_000,
    ),
)

SECTIONS["exactly once"] = _writes(
    Option(
        "deliveryGuarantee",
        choice("at_least_once", "exactly_once"),
        "`at_least_once`: a row may arrive twice when Spark runs a task again. `exactly_once`: each task writes in a "
        "Kafka transaction, and the sink commits all of them with the micro-batch or batch write. Readers with "
        "`isolation.level=read_committed` then see every row once.",
        default="at_least_once",
        only=(
            Other("kafka.acks", ("all", "-1"), mine=("exactly_once",)),
            Other("kafka.max.in.flight.requests.per.connection", at_most=5, mine=("exactly_once",)),
        ),
        not_with=(
            Other("kafka.enable.idempotence", (False,), mine=("exactly_once",), why="transactions need it"),
            Other("kafka.retries", (0,), mine=("exactly_once",), why=_NO_RETRIES),
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
        "The beginning of the query's transactional ids. It identifies the query: the sink refuses a second query "
        "with the same prefix. Default: `kafkasource-` and Spark's query id, which the sink reads from the file "
        "`metadata` in `checkpointLocation`. A batch write has no checkpoint, so it must set this option.",
        only=(_EXACTLY_ONCE,),
        per_cluster=False,
    ),
    Option(
        "atomicBatch",
        BOOLEAN,
        "One transaction for all tasks, so that readers see a micro-batch completely or not at all ([its "
        "limits](exactly-once.md#a-whole-micro-batch-at-once)).",
        default=False,
        only=(
            _EXACTLY_ONCE,
            Other("producersPerCluster", at_most=1, why="several producers of a cluster would write to one partition"),
        ),
        per_cluster=False,
    ),
    Option(
        "lostTransactions",
        choice("fail", "rewrite", "skip"),
        "Decides what a restart does when brokers aborted transactions of a batch that the query had decided to "
        "commit, or have lost that decision: `fail`, `rewrite` or `skip` ([what each does](exactly-once-recovery.md)).",
        default="fail",
        only=(_EXACTLY_ONCE,),
        per_cluster=False,
    ),
    Option(
        "kafka.transaction.timeout.ms",
        MILLISECONDS,
        "Brokers abort a transaction that is open for longer. A batch with its retries, and a restart after a "
        "crash, must fit into this time. It can be at most the brokers' `transaction.max.timeout.ms` (15 minutes).",
        default=600_000,
        at_least=1,
        differs="60000. A restart may take longer",
        only=(_EXACTLY_ONCE,),
    ),
)

SECTIONS["typed rows"] = (
    Option(
        "valueFormat",
        FORMAT,
        "Format of the values. `avro`, `protobuf`: a read gives `value` the columns of `readerSchema` and decodes "
        "each record by the schema whose id it carries; a write encodes by `writerSchema`. `json`: the columns of "
        "`readerSchema` or of `.schema(...)`; a write gives what Spark's `to_json` gives. `string`: UTF-8. Null "
        "is a tombstone.",
        default="binary",
        per_cluster=False,
    ),
    Option("keyFormat", FORMAT, "As `valueFormat`, for the keys.", default="binary", per_cluster=False),
    _REGISTRY_URL,
    Option(
        "schemaRegistry",
        FUNCTION,
        "In place of a registry's URL: `module:function`, yours, which returns the text of a schema for its id, on"
        " the driver and on the workers ([schemas from somewhere "
        "else](schema-registry.md#schemas-from-somewhere-else)).",
        not_with=(Other("schemaRegistry.url", why="both say where schemas are"),),
        per_cluster=False,
    ),
    Option(
        "schemaIdIn",
        choice("prefix", "header", "none", "fingerprint"),
        "The place of a record's schema id: `prefix`, `header`, `none` or `fingerprint` ([what each "
        "means](schema-registry.md#the-place-of-a-schema-id)). A read finds an id wherever it is.",
        default="prefix",
        per_cluster=False,
    ),
    Option(
        "readerSchema",
        TEXT,
        "The schema whose columns `value` has, resolved once for each `load()`: `latest` of the topic's subject "
        "(the default), `version:3` of it, `subject:NAME`, `id:7`, `file:PATH`, or the schema itself: the text of "
        "an Avro schema or of a `.proto` file; for `json` Spark's DDL, the JSON of a `StructType`, or a JSON "
        "Schema.",
        only=(Other("valueFormat", SCHEMA_FORMATS),),
        used_by=SOURCE,
    ),
    Option(
        "keyReaderSchema",
        TEXT,
        "As `readerSchema`, for the keys.",
        only=(Other("keyFormat", SCHEMA_FORMATS),),
        used_by=SOURCE,
    ),
    Option(
        "writerSchema",
        TEXT,
        "The schema that values are written by, resolved once on the driver: `latest` of the topic's subject (the "
        "default), `version:3` of it, `subject:NAME`, `id:7`, or a schema that the subject has, as `file:PATH` or "
        "by its text. `register`: registers that of the column's type. For `json` a JSON Schema.",
        only=(Other("valueFormat", SCHEMA_FORMATS),),
        per_cluster=False,
        used_by=SINK,
    ),
    Option(
        "keyWriterSchema",
        TEXT,
        "As `writerSchema`, for the keys.",
        only=(Other("keyFormat", SCHEMA_FORMATS),),
        per_cluster=False,
        used_by=SINK,
    ),
    Option(
        "badRecords",
        BAD_RECORDS,
        "Decides about records that their format cannot decode. `fail`: the query fails and names the record. "
        "`column`, for a read: null, and a column `badRecord` with the reason and the bytes. `topic:NAME`, for a "
        "write: such rows, and records that cannot be written, go to this topic ([dead "
        "letters](dead-letters.md)).",
        default="fail",
        per_cluster=False,
    ),
    Option(
        "rescuedColumn",
        STRING,
        "The name of one more column, such as `_rescued`: a JSON object of the value's [fields that the columns "
        "lack](typed.md#fields-that-the-columns-lack).",
        only=(Other("valueFormat", SCHEMA_FORMATS),),
        not_with=(Other("recordTypes", why="the fields are those of one type of record"),),
        used_by=SOURCE,
    ),
    Option(
        "recordTypes",
        NAMES,
        "The types of records of a topic that has several, separated by commas: `shop.Order,shop.Refund` ([several "
        "types](typed.md#several-types-of-records-in-a-topic)). With `readerSchema`, that schema has the types.",
        only=(Other("valueFormat", REGISTERED_FORMATS),),
        not_with=(Other("messageName", why="both say which messages the values are"),),
        used_by=SOURCE,
    ),
    Option(
        "messageName",
        TEXT,
        "The message of the schema that the values are, if its file declares several: the full name "
        "(`shop.v1.Order`), or a last part of it that only one has.",
        only=(Other("valueFormat", ("protobuf",)),),
        per_cluster=False,
    ),
    Option(
        "keyMessageName",
        TEXT,
        "As `messageName`, for the keys.",
        only=(Other("keyFormat", ("protobuf",)),),
        per_cluster=False,
    ),
    Option(
        "protobuf.recursive.fields.max.depth",
        INTEGER,
        "How often a message may stand in itself, the outermost counted. 1 leaves such fields out, 2 has them once. "
        "What is deeper is left out. Default: a message that contains itself is an error.",
        at_least=1,
        at_most=10,
        used_by=SOURCE,
    ),
    Option(
        "protobuf.emit.default.values",
        BOOLEAN,
        "A proto3 field that is not `optional` is 0, false, empty or its enum's first name where the record does not "
        "have it. Default: null.",
        default=False,
        used_by=SOURCE,
    ),
    Option(
        "protobuf.enums.as.ints",
        BOOLEAN,
        "Enums are numbers. Default: their names.",
        default=False,
        used_by=SOURCE,
    ),
)

SECTIONS["several clusters"] = _writes(
    Option(
        "clusters",
        JSON,
        'Write every row to several clusters while reading it once: `{"east":{"kafka.bootstrap.servers":"e:9092"}}`, '
        "or options `clusters.<name>.<option>`. A cluster can have its own of nearly every option of this page.",
        per_cluster=False,
    ),
    Option(
        "onSlowCluster",
        choice("block", "discard", "fail"),
        "Decides about a cluster whose queue is above `highWatermarkBytes` while the others wait. `block`: reading"
        " waits. `discard`: the sink drops the cluster's oldest batches. `fail`: the task fails ([a slow "
        "cluster](fan-out.md#a-slow-cluster)).",
        default="block",
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
        "slowClusterWait",
        DURATION,
        "How long the sink waits for a slow cluster under `discard` and `fail`.",
        default=1_000,
        at_least=0,
        only=(_CLUSTERS,),
    ),
    Option(
        "maxRecordAge",
        DURATION,
        "The sink drops rows whose `timestamp` is older than this (`10m`), and rows that it could not deliver for "
        "this long. It reports how many it dropped.",
        at_least=1,
        only=(_CLUSTERS,),
        not_with=(Other("deliveryGuarantee", ("exactly_once",), why="rows that the sink drops do not arrive once"),),
    ),
    Option(
        "highWatermarkBytes",
        SIZE,
        "The queue size above which `onSlowCluster` acts: `16m`. At most `kafka.buffer.memory`. Default: all of it "
        "with `block`, three quarters of it otherwise.",
        at_least=1 * KIB,
        at_most=MAX_INT64,
        only=(_CLUSTERS,),
    ),
    Option(
        "lowWatermarkBytes",
        SIZE,
        "The queue size down to which `onSlowCluster=discard` drops batches: `8m`. Default: half of "
        "`highWatermarkBytes`.",
        at_least=0,
        at_most=MAX_INT64,
        only=(_CLUSTERS,),
    ),
    Option(
        "partitioning",
        choice("source", "key"),
        "`source`: a row goes to the partition in the column `partition`, as in a mirror; without that column the "
        "`partitioner` decides. `key`: the sink ignores the column.",
        default="source",
        only=(_CLUSTERS,),
    ),
    Option(
        "producersPerCluster",
        INTEGER,
        "How many producers (connections, threads) each executor worker has for a cluster. With several, rows without "
        "a key lose their order in a partition.",
        default=1,
        at_least=1,
        at_most=64,
        only=(_CLUSTERS,),
    ),
    Option(
        "onlyTopics",
        STRING,
        "A Java regular expression. The cluster gets only rows whose topic name contains a match.",
        only=(_CLUSTERS,),
    ),
    Option(
        "unlessOrigin",
        JSON,
        "Mirrors set it: the cluster does not get rows that have been there, or that come there by another flow "
        "([cycles](mirror-topics.md#cycles)).",
        only=(_CLUSTERS,),
    ),
    Option(
        "refusedTopics",
        JSON,
        "Mirrors set it: a list of topics that the cluster does not let the mirror create. The sink leaves their rows "
        "out ([more](mirror-topics.md#topics-that-a-target-refuses)).",
        only=(_CLUSTERS,),
    ),
    Option(
        "offsetMap",
        STRING,
        "Name of a compacted topic in the cluster, which must exist. The sink writes there which offset each row had "
        "in its source (column `offset`) and which offset it got in the cluster.",
        only=(_CLUSTERS,),
        not_with=(
            Other("kafka.enable.idempotence", (False,), why=_MAP_ORDER),
            Other("kafka.acks", ("1", "0"), why=_MAP_ORDER),
            Other("kafka.retries", (0,), why=f"{_NO_RETRIES}. {_NO_MAP}"),
        ),
    ),
)

SECTIONS["process"] = (
    Option(
        "memoryBudget",
        SIZE,
        "Memory for the data of one Python worker process: `64m` ([its default and its parts](memory.md)). A size that "
        "you set by its own option takes precedence.",
        at_least=4 * MIB,
        at_most=MAX_INT64,
        per_cluster=False,
    ),
    Option(
        "unknownOptions",
        choice("warn", "fail"),
        "Decides about an option that the connector does not know, or that is for the other direction. `warn`: a "
        "warning with the most similar name. `fail`: the query ends before it asks a broker.",
        default="warn",
        per_cluster=False,
    ),
    Option(
        "kafka.client.id", STRING, "The client's name in the brokers' logs, metrics and quotas.", default="kafkasource"
    ),
    Option(
        "kafka.broker.version.fallback",
        OLD_RELEASE,
        "The release of brokers before 0.10, which do not say what they serve: `0.9.0` or `0.8.2`. `auto`: the client "
        "finds out ([older brokers](older-brokers.md)).",
        default="auto",
    ),
)

SECTIONS["network"] = (
    Option(
        "kafka.request.timeout.ms",
        MILLISECONDS,
        "The longest time for one request, from the first byte sent to the last byte received.",
        default=30_000,
        at_least=1,
    ),
    Option(
        "kafka.default.api.timeout.ms",
        MILLISECONDS,
        "The longest time for one operation with all its retries. Also how long the client tries the bootstrap "
        "servers.",
        default=60_000,
        at_least=1,
    ),
    Option(
        "kafka.metadata.max.age.ms",
        MILLISECONDS,
        "After this time the client asks for leaders and partitions again, even when nothing has failed.",
        default=300_000,
        at_least=0,
        aliases=("kafka.topic.metadata.refresh.interval.ms",),
    ),
    Option(
        "kafka.socket.connection.setup.timeout.ms",
        MILLISECONDS,
        "The longest time to connect to one address. It doubles with each failure.",
        default=10_000,
        at_least=1,
    ),
    Option(
        "kafka.socket.connection.setup.timeout.max.ms",
        MILLISECONDS,
        "The longest time that `kafka.socket.connection.setup.timeout.ms` can grow to.",
        default=30_000,
        at_least=1,
    ),
    Option(
        "kafka.reconnect.backoff.ms",
        MILLISECONDS,
        "How long the client waits before it connects again to a broker that failed. It doubles with each failure, "
        "with jitter.",
        default=50,
        at_least=0,
    ),
    Option(
        "kafka.reconnect.backoff.max.ms",
        MILLISECONDS,
        "The longest time that `kafka.reconnect.backoff.ms` can grow to.",
        default=1_000,
        at_least=0,
    ),
    Option(
        "kafka.retry.backoff.ms",
        MILLISECONDS,
        "How long the client waits before it sends a failed request again. It doubles with each failure, with jitter.",
        default=100,
        at_least=0,
    ),
    Option(
        "kafka.retry.backoff.max.ms",
        MILLISECONDS,
        "The longest time that `kafka.retry.backoff.ms` can grow to.",
        default=1_000,
        at_least=0,
    ),
    Option(
        "kafka.connections.max.idle.ms",
        MILLISECONDS,
        "The client closes a connection that it has not used for this long. -1: never. With `kafka.auth=azure` the "
        "default is 180000.",
        default=540_000,
        at_least=-1,
    ),
    Option(
        "kafka.receive.buffer.bytes",
        BYTES,
        "Size of the socket's receive buffer. -1: the operating system decides.",
        default=-1,
        at_least=-1,
        differs="65536. The operating system's own sizing is faster, and right for long distances",
        aliases=("kafka.socket.receive.buffer.bytes",),
    ),
    Option(
        "kafka.send.buffer.bytes",
        BYTES,
        "Size of the socket's send buffer. -1: the operating system decides.",
        default=-1,
        at_least=-1,
        differs="131072",
        aliases=("kafka.socket.send.buffer.bytes",),
    ),
    Option(
        "kafka.receive.message.max.bytes",
        BYTES,
        "The client refuses a longer response from a broker before it allocates memory for it.",
        default=100 * MIB,
        at_least=1000,
    ),
)

PAGES: dict[str, tuple[Option, ...]] = {"registry": tuple(_REGISTRY), **SECURITY_SECTIONS}
"""The tables of the pages beside it."""

OPTIONS = tuple(row for rows in (SECTIONS | PAGES).values() for row in rows)

_DESERIALIZER = "keys and values are binary: use valueFormat and keyFormat, or cast('string'), from_json on the columns"
_SERIALIZER = "write columns of string or binary; use to_json, to_avro or cast before the sink"

# Options of Kafka and of the JVM connector that this connector refuses.
REFUSED: tuple[RefusedOption, ...] = (
    RefusedOption("kafka.auto.offset.reset", "use startingOffsets"),
    RefusedOption("kafka.key.deserializer", _DESERIALIZER),
    RefusedOption("kafka.value.deserializer", _DESERIALIZER),
    RefusedOption("kafka.key.serializer", _SERIALIZER),
    RefusedOption("kafka.value.serializer", _SERIALIZER),
    RefusedOption("kafka.enable.auto.commit", "Spark's checkpoint keeps the offsets"),
    RefusedOption("kafka.interceptor.classes", "it names a Java class; transform the DataFrame instead"),
    RefusedOption(
        "kafka.partitioner.class", "it names a Java class; use the option partitioner, or set the column `partition`"
    ),
    RefusedOption(
        "kafka.transactional.id", "each task has its own; use deliveryGuarantee=exactly_once and transactionalIdPrefix"
    ),
    RefusedOption("kafka.metric.reporters", "it names a Java class"),
    *SECURITY_REFUSED,
    *REGISTRY_REFUSED,
    RefusedOption("kafka.ssl.", "docs/options-security.md lists the options of TLS"),
    RefusedOption("kafka.sasl.", "docs/options-security.md lists the options of SASL"),
    RefusedOption("path", "load() and save() take no path; use the option subscribe to read, topic to write"),
)

# Options that Spark itself adds to those of a source or sink.
SPARKS_OWN = frozenset(
    {
        *("checkpointlocation", "queryname", "asyncprogresstrackingenabled"),
        *("owner", "provider", "location", "external", "comment"),  # properties of a SQL table that names no columns
    }
)

BY_KEY = {key.lower(): option for option in OPTIONS for key in (option.name, *option.aliases)}
BY_NAME = {option.name: option for option in OPTIONS}
