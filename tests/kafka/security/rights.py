"""THE table of the rights that each job needs: test_rights_on_a_broker.py proves each row, docs/rights.md shows them.

`make readme` writes the table of docs/rights.md again.
"""

from __future__ import annotations

from dataclasses import dataclass

# Kafka grants Describe to whoever has one of these on the same resource.
BRINGS_DESCRIBE = ("read", "write", "delete", "alter")

_ERRORS = {"topic": "TOPIC", "group": "GROUP", "cluster": "CLUSTER", "transactional_id": "TRANSACTIONAL_ID"}
_SAID = {  # the words of the error: which right to grant
    ("topic", "read"): r"grant .*Read",
    ("topic", "write"): r"grant .*Write",
    ("topic", "describe"): r"grant Describe",
    ("topic", "create"): r"grant Create on it",
    ("topic", "alter"): r"grant Alter on the topic",
    ("topic", "delete"): r"grant Delete on it",
    ("topic", "describe_configs"): r"grant DescribeConfigs on it",
    ("topic", "alter_configs"): r"grant AlterConfigs on it",
    ("group", "read"): r"grant Read on it",
    ("group", "describe"): r"grant (Read|Describe) on it",
    ("group", "delete"): r"grant Delete on it",
    ("transactional_id", "write"): r"grant Write and Describe",
    ("transactional_id", "describe"): r"grant Write and Describe",
}


@dataclass(frozen=True)
class Right:
    """One operation on one resource.

    name        what the docs call the resource
    ids         its name for a job of the test: an ACL for it, or (pattern `prefixed`) for all that begin with it
    without     what the docs say of a job that goes on without this right; empty: the job ends with an error
    shows       how the test sees that it goes on without: a part of its warnings, or of what it prints
    hides       a part of what it prints with the right, and does not print without
    no_describe what shows when Describe is denied, where that is something else
    """

    operation: str
    resource: str
    name: str
    ids: str
    pattern: str = "literal"
    without: str = ""
    shows: str = ""
    hides: str = ""
    no_describe: str = ""

    def denials(self) -> list[str]:
        """The operations that a broker can deny here."""
        return [self.operation, *(["describe"] if self.operation in BRINGS_DESCRIBE else [])]

    def said(self, operation: str) -> str:
        """A pattern of the error where `operation` is denied."""
        return rf"(?s){_ERRORS[self.resource]}_AUTHORIZATION_FAILED.*{_SAID[self.resource, operation]}"


@dataclass(frozen=True)
class Job:
    """`run`: a function of rights_jobs.py, by name."""

    name: str
    run: str
    rights: tuple[Right, ...]


def topic(operation: str, name: str = "the topics", ids: str = "{w.topic}", **more: str) -> Right:
    return Right(operation, "topic", name, ids, **more)


def group(operation: str, name: str = "the group", ids: str = "{w.group}", **more: str) -> Right:
    return Right(operation, "group", name, ids, **more)


def sizes(shows: str) -> Right:
    return Right("describe", "cluster", "the cluster", "kafka-cluster", without="sizes are not shown", shows=shows)


_NO_COMMIT = "cannot commit the query's offsets .*grant Read on it"
_COMMITS = group("read", "`kafka.group.id`", "{w.name}-other")
_IDS = "all ids that begin with `transactionalIdPrefix`"
_EXACTLY_ONCE = (
    Right("write", "transactional_id", _IDS, "{w.name}", "prefixed"),
    group("read", "the group `transactionalIdPrefix`-marker", "{w.name}-marker"),
    group("read", "the group `transactionalIdPrefix`-kept", "{w.name}-kept"),
    topic("write"),
    topic("read"),
)
_DECISION = group("describe", "the group `transactionalIdPrefix`-marker", "{w.name}-marker")
_AT_TARGET, _THERE, _MAP = "{w.name}.{w.topic}", "the target's topics", "mirror-offsets.{w.name}.internal"
_MAPS = "the target's `mirror-offsets.SOURCE.internal`"
_SHOWN = topic("describe", without="their offsets are not shown", hides="{w.topic}")
_LEFT = "a warning; the topics stay as they are"

JOBS = (
    Job("read, batch", "batch_read", (topic("read"),)),
    Job("read, stream", "stream", (topic("read"),)),
    Job(
        "stream of a `subscribePattern`",
        "stream_of_a_pattern",
        (topic("read", no_describe="no topic has a match of .* lacks the right Describe"),),
    ),
    Job(
        "stream with `kafka.group.id`",
        "stream_with_a_group",
        (
            topic("read"),
            group(
                "read",
                "`kafka.group.id`",
                "{w.name}-other",
                without="a warning; the group gets no offsets",
                shows=_NO_COMMIT,
                no_describe=_NO_COMMIT,
            ),
        ),
    ),
    Job("stream with `groupOwnership=exclusive`", "stream_that_owns_its_group", (topic("read"), _COMMITS)),
    Job(
        "`startingOffsets` of a group",
        "read_on_from_a_group",
        (topic("read"), group("describe", "`kafka.group.id`")),
    ),
    Job("write, at least once", "write_without_idempotence", (topic("write"),)),
    Job("write, idempotent (the default)", "write", (topic("write"),)),
    Job(
        "write with `createTopic`",
        "write_to_a_new_topic",
        (topic("create", "the topic", "{w.name}-new"), topic("write", "the topic", "{w.name}-new")),
    ),
    Job("write, `exactly_once`", "exactly_once", _EXACTLY_ONCE),
    Job("write, `exactly_once` with `atomicBatch`", "exactly_once_in_one_transaction", _EXACTLY_ONCE),
    Job(
        "`pykafka mirror`",
        "mirror",
        (
            topic(
                "read",
                "the source's topics",
                no_describe="nothing was mirrored",
            ),
            topic("describe_configs", "the source's topics"),
            topic("create", _THERE, _AT_TARGET),
            topic("write", _THERE, _AT_TARGET),
            topic("describe_configs", _THERE, _AT_TARGET, without=_LEFT, shows="grant DescribeConfigs on it"),
            topic("alter", _THERE, _AT_TARGET, without=_LEFT, shows="grant Alter on the topic"),
            topic("alter_configs", _THERE, _AT_TARGET, without=_LEFT, shows="grant AlterConfigs on it"),
            topic("create", _MAPS, _MAP),
            topic("write", _MAPS, _MAP, without="a warning; the map has a gap", shows="the map of offsets is not"),
            topic("read", _MAPS, _MAP, without="a warning; the map has a gap", shows="the map of offsets is not"),
        ),
    ),
    Job("`pykafka read --group`", "member_of_a_group", (topic("read"), _COMMITS)),
    Job(
        "`pykafka topics list`",
        "topics_list",
        (topic("describe", without="they are not listed", hides="{w.topic}"), sizes('"bytes": null')),
    ),
    Job(
        "`pykafka topics describe`",
        "topics_describe",
        (
            topic("describe"),
            topic("describe_configs", without="their settings are not shown", hides="  retention.ms="),
            sizes(r"BYTES\n.* -\n"),
        ),
    ),
    Job(
        "`pykafka topics create`",
        "topics_create",
        (topic("create", ids="{w.name}-new"), topic("describe", ids="{w.name}-new")),
    ),
    Job("`pykafka topics alter --set`", "topics_alter_settings", (topic("describe"), topic("alter_configs"))),
    Job("`pykafka topics alter --partitions`", "topics_alter_partitions", (topic("alter"),)),
    Job("`pykafka topics delete`", "topics_delete", (topic("delete"),)),
    Job("`pykafka groups list`", "groups_list", (group("describe", without="it is not listed", hides="{w.group}"),)),
    Job("`pykafka groups describe`, `lag`", "groups_describe", (group("describe"), _SHOWN)),
    Job("`pykafka groups delete`", "groups_delete", (group("delete"),)),
    Job("`pykafka offsets show`", "offsets_show", (group("describe"), _SHOWN)),
    Job("`pykafka offsets set`", "offsets_set", (group("read"), topic("read"))),
    Job("`pykafka offsets delete`", "offsets_delete", (group("delete"), topic("read"))),
    Job(
        "`pykafka transactions list`",
        "transactions_list",
        (
            Right(
                "describe", "transactional_id", _IDS, "{w.name}", "prefixed", "they are not listed", hides="{w.name}-0:"
            ),
            _DECISION,
        ),
    ),
    Job(
        "`pykafka transactions abort`",
        "transactions_abort",
        (Right("write", "transactional_id", _IDS, "{w.name}", "prefixed"), _DECISION),
    ),
    Job(
        "`pykafka ui`",
        "ui",
        (
            topic("describe", without="they are not listed", hides="'topic': '{w.topic}'"),
            topic("read", without="their records are not shown", hides="'offset': 2"),
            topic(
                "describe_configs",
                without="their settings are not shown",
                shows=f"TOPIC_AUTHORIZATION_FAILED.*{_SAID['topic', 'describe_configs']}",
            ),
            sizes("CLUSTER_AUTHORIZATION_FAILED.*grant Describe on the cluster"),
            group(
                "describe",
                without="its state and lag are not shown",
                shows=f"GROUP_AUTHORIZATION_FAILED.*{_SAID['group', 'describe']}",
            ),
            Right(
                "describe",
                "transactional_id",
                "the transactional ids",
                "{w.name}",
                "prefixed",
                "they are not listed",
                hides="'transactional_id': '{w.name}-0'",
            ),
        ),
    ),
)


def markdown_table() -> str:
    """A row for all jobs that need the same rights."""
    jobs: dict[str, list[str]] = {}
    for job in JOBS:
        alike: dict[tuple[str, str], list[str]] = {}
        for right in job.rights:
            alike.setdefault((right.name, right.without), []).append(_spelled(right.operation))
        cells = [
            f"{', '.join(operations)} on {name}" + (f" (else {without})" if without else "")
            for (name, without), operations in alike.items()
        ]
        jobs.setdefault("; ".join(cells), []).append(job.name)
    rows = [f"| {'; '.join(names)} | {rights} |" for rights, names in jobs.items()]
    return "\n".join(["| job | rights |", "|---|---|", *rows])


def _spelled(operation: str) -> str:
    """Spell an operation as Kafka does: `describe_configs` is DescribeConfigs."""
    return "".join(word.capitalize() for word in operation.split("_"))
