"""The tables of docs/options.md and of the two pages beside it, made from the table of options.

`SECTIONS` is the order in which users need the options: first what every job sets, then what people tune.
"""

from __future__ import annotations

from kafkasource.kafka.security.option import SECRET, Option, Other, any_of, as_text
from kafkasource.kafka.security.tls import options as tls_options
from kafkasource.options import registry
from kafkasource.options.table import BY_NAME, OPTIONS
from kafkasource.options.types import DURATION, SIZE

SECTIONS: dict[str, tuple[str, ...]] = {
    "every job": (
        *("kafka.bootstrap.servers", "subscribe", "subscribePattern", "assign", "startingOffsets", "topic"),
        "kafka.security.protocol",
    ),
    "start and end": (
        *("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "endingOffsets"),
        *("endingTimestamp", "endingOffsetsByTimestamp", "trigger", "stopFile"),
    ),
    "losses": ("failOnDataLoss", "failOnDeletedTopic", "failedOverTo"),
    "micro-batches": ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    "tasks": ("minPartitions", "maxPartitions", "minRecordsPerPartition", "maxRecordsPerPartition"),
    "columns": ("includeHeaders", "columns", "pushDownPredicate", "packRecords", "addHeaders"),
    "group": ("kafka.group.id", "commitOffsets", "groupIdPrefix", "groupOwnership"),
    "fetching": (
        *("kafka.isolation.level", "readAhead", "kafka.max.partition.fetch.bytes", "kafka.fetch.max.bytes"),
        *("kafka.fetch.min.bytes", "kafka.fetch.max.wait.ms", "kafka.client.rack", "kafka.check.crcs"),
        *("kafka.max.decompressed.batch.bytes", "kafkaConsumer.pollTimeoutMs"),
        *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    ),
    "writing": (
        *("kafka.compression.type", "kafka.acks", "createTopic", "partitioner", "commitListener"),
        *("kafka.batch.size", "kafka.linger.ms", "kafka.buffer.memory", "kafka.max.block.ms", "kafka.max.request.size"),
        *("kafka.delivery.timeout.ms", "kafka.retries", "kafka.enable.idempotence"),
        *("kafka.max.in.flight.requests.per.connection", "kafka.metadata.max.idle.ms"),
        *("kafka.compression.gzip.level", "kafka.compression.lz4.level", "kafka.compression.zstd.level"),
    ),
    "exactly once": (
        *("deliveryGuarantee", "transactionalIdPrefix", "atomicBatch", "lostTransactions"),
        "kafka.transaction.timeout.ms",
    ),
    "typed rows": (
        *("valueFormat", "keyFormat", "schemaRegistry.url", "schemaRegistry", "schemaIdIn"),
        *("readerSchema", "keyReaderSchema", "writerSchema", "keyWriterSchema", "badRecords"),
        *("recordTypes", "messageName", "keyMessageName", "protobuf.recursive.fields.max.depth"),
        *("protobuf.emit.default.values", "protobuf.enums.as.ints"),
    ),
    "several clusters": (
        *("clusters", "onSlowCluster", "slowClusterWait", "maxRecordAge", "highWatermarkBytes", "lowWatermarkBytes"),
        *("partitioning", "producersPerCluster", "onlyTopics", "unlessOrigin", "refusedTopics", "offsetMap"),
    ),
    "process": ("memoryBudget", "unknownOptions", "kafka.client.id", "kafka.broker.version.fallback"),
    "network": (
        *("kafka.request.timeout.ms", "kafka.default.api.timeout.ms", "kafka.metadata.max.age.ms"),
        *("kafka.socket.connection.setup.timeout.ms", "kafka.socket.connection.setup.timeout.max.ms"),
        *("kafka.reconnect.backoff.ms", "kafka.reconnect.backoff.max.ms"),
        *("kafka.retry.backoff.ms", "kafka.retry.backoff.max.ms", "kafka.connections.max.idle.ms"),
        *("kafka.receive.buffer.bytes", "kafka.send.buffer.bytes", "kafka.receive.message.max.bytes"),
    ),
}
# Pages of their own: all options whose names begin with one of these, and are in no section above.
PAGES: dict[str, tuple[str, ...]] = {
    "registry": ("schemaRegistry.",),
    "tls": ("kafka.ssl.", "kafka.enable.ssl."),
    "sasl": ("kafka.sasl.", "kafka.auth", "kafka.https."),
    "providers": ("kafka.config.providers.",),
}
LIKE_THE_BROKERS = {f"{registry.PREFIX}{row.name}" for row in tls_options.ROWS}
"""The registry's options of TLS: its page says once that they are those of the brokers with another prefix."""
NEEDED = {"exactly once": "deliveryGuarantee", "several clusters": "clusters"}
"""What all options of a section need: its page says so once."""

DOCUMENTS: dict[str, tuple[str, ...]] = {
    "options.md": tuple(SECTIONS),
    "options-registry.md": ("registry",),
    "options-security.md": ("tls", "sasl", "providers"),
}
"""The tables of each page below docs/."""


def section_of(option: Option) -> str:
    """The table that has the option. Raises StopIteration for an option that is in none."""
    for section, names in SECTIONS.items():
        if option.name in names:
            return section
    return next(page for page, starts in PAGES.items() if option.name.startswith(starts))


def markdown_table(section: str) -> str:
    """The options of a section, or of a page, as a table. It has no column whose cells are all the same."""
    if section in SECTIONS:
        options = [BY_NAME[name] for name in SECTIONS[section]]
    else:
        options = [each for each in OPTIONS if section_of(each) == section and each.name not in LIKE_THE_BROKERS]
    rows = [_cells(option) for option in options]
    shown = [title for title in rows[0] if len({row[title] for row in rows}) > 1]
    lines = [shown, *([row[title] for title in shown] for row in rows)]
    first, *others = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([first, "|---" * len(shown) + "|", *others])


def _cells(option: Option) -> dict[str, str]:
    default = option.implied if option.default is None else _default(option)
    used_by = "both" if len(option.used_by) > 1 else {"source": "reads", "sink": "writes"}[option.used_by[0]]
    if used_by == "reads" and "batch" in option.no_effect_in:
        used_by = "streams"
    return {
        "option": f"`{option.name}`"
        + "".join(f" (alias `{alias}`)" for alias in option.aliases)
        + (" (secret)" if option.type is SECRET else ""),
        "for": used_by,
        "default": default and f"`{default}`",
        "meaning": meaning(option),
    }


def meaning(option: Option) -> str:
    """The text of an option, with the options that it needs."""
    needed = NEEDED.get(section_of(option))
    needs = [_wanted(rule) for rule in option.only if not rule.mine and rule.at_most is None and rule.name != needed]
    only = f"Only with {' and '.join(needs)}. " if needs else ""
    differs = f" Java's default is {option.differs}." if option.differs else ""
    return f"{only}{option.doc}{differs}"


def _default(option: Option) -> str:
    """The default, as a user would write it: `15m`, `64m`."""
    text = as_text(option.default)
    units: dict[object, tuple[tuple[str, int], ...]] = {
        DURATION: (("h", 3_600_000), ("m", 60_000), ("s", 1_000)),
        SIZE: (("g", 1 << 30), ("m", 1 << 20)),
    }
    for unit, factor in units.get(option.type, ()):
        if isinstance(option.default, int) and option.default and option.default % factor == 0:
            return f"{option.default // factor}{unit}"
    return text


def _wanted(rule: Other) -> str:
    if not rule.values:
        return f"`{rule.name}`"
    first, *others = map(as_text, rule.values)
    return any_of([f"`{rule.name}={first}`", *(f"`{value}`" for value in others)])
