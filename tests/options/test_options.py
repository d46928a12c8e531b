"""options.py: what the table promises, and that docs/options.md says the same."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.security.option import TEXT
from kafkasource.options import markdown, table
from kafkasource.options.types import BOOLEAN, MILLISECONDS
from kafkasource.types import IsolationLevel, NewTopic

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {name: (DOCS / name).read_text() for name in markdown.DOCUMENTS}
SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}

# Java's own defaults (configuration reference of Kafka 4.3), where we give no reason to differ.
JAVA_DEFAULTS = {
    "kafka.request.timeout.ms": 30_000,
    "kafka.default.api.timeout.ms": 60_000,
    "kafka.socket.connection.setup.timeout.ms": 10_000,
    "kafka.socket.connection.setup.timeout.max.ms": 30_000,
    "kafka.reconnect.backoff.ms": 50,
    "kafka.reconnect.backoff.max.ms": 1_000,
    "kafka.retry.backoff.ms": 100,
    "kafka.retry.backoff.max.ms": 1_000,
    "kafka.metadata.max.age.ms": 300_000,
    "kafka.connections.max.idle.ms": 540_000,
    "kafka.isolation.level": IsolationLevel.READ_UNCOMMITTED,
    "kafka.fetch.max.bytes": 52_428_800,
    "kafka.fetch.min.bytes": 1,
    "kafka.fetch.max.wait.ms": 500,
    "kafka.check.crcs": True,
    "kafka.acks": "all",
    "kafka.compression.type": "none",
    "kafka.buffer.memory": 33_554_432,
    "kafka.max.block.ms": 60_000,
    "kafka.max.request.size": 1_048_576,
    "kafka.delivery.timeout.ms": 120_000,
    "kafka.max.in.flight.requests.per.connection": 5,
}


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_of_options_are_the_table_of_options(page):
    shown = re.findall(r"<!-- options:(.*?) -->\n(.*?)\n<!-- end -->", PAGES[page], re.DOTALL)
    assert shown == [(section, markdown.markdown_table(section)) for section in markdown.DOCUMENTS[page]]


def test_the_pages_have_every_option_once_and_what_every_job_sets_comes_first():
    named = re.findall(r"^\| `([^`]+)`", "".join(PAGES.values()), re.MULTILINE)
    assert sorted(named) == sorted({option.name for option in options.OPTIONS} - markdown.LIKE_THE_BROKERS)
    assert named[:2] == ["kafka.bootstrap.servers", "subscribe"]


def test_an_option_stands_in_the_table_of_the_option_that_it_needs():
    section = {row.name: title for title, rows in (table.SECTIONS | table.PAGES).items() for row in rows}
    apart = {
        (row.name, rule.name)
        for row in options.OPTIONS
        for rule in row.only
        if not rule.mine and rule.at_most is None and section[row.name] != section.get(rule.name)
    }
    assert apart == set()
    assert section["failOnDeletedTopic"] == section["subscribePattern"]


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("kafka.fetch.max.bytes", "`52428800` (50 MiB)"),
        ("kafka.batch.size", "`262144` (256 KiB)"),
        ("kafka.transaction.timeout.ms", "`600000` (10 minutes)"),
        ("kafka.max.block.ms", "`60000` (1 minute)"),
        ("kafka.sasl.login.read.timeout.ms", "`10000` (10 seconds)"),
        ("kafka.fetch.max.wait.ms", "`500`"),
        ("kafka.fetch.min.bytes", "`1`"),
        ("maxTriggerDelay", "`15m`"),
        ("fetchOffset.numRetries", "`3`"),
    ],
)
def test_a_default_in_bytes_or_milliseconds_is_shown_in_larger_units_too(name, cell):
    (row,) = [line for page in PAGES.values() for line in page.splitlines() if line.startswith(f"| `{name}`")]
    assert row.split(" | ")[-2] == cell


def test_no_text_of_an_option_is_longer_than_sixty_words():
    long = {each.name: len(markdown.meaning(each).split()) for each in options.OPTIONS}
    assert {name: words for name, words in long.items() if words > 60} == {}


def test_the_pages_name_every_value_of_a_choice():
    for each in options.OPTIONS:
        choice, _, values = each.type.expected.partition("one of ")
        text = f"{markdown.meaning(each)} {each.default}"
        if not choice and not each.doc.startswith("As `"):
            assert [value for value in values.split(", ") if value not in text] == [], each.name


@pytest.mark.parametrize("name", JAVA_DEFAULTS)
def test_defaults_are_javas_unless_the_table_says_why(name):
    assert options.BY_NAME[name].default == JAVA_DEFAULTS[name]
    assert not options.BY_NAME[name].differs


@pytest.mark.parametrize(
    ("name", "javas"),
    [
        ("kafka.batch.size", 16_384),
        ("kafka.linger.ms", 5),
        ("kafka.transaction.timeout.ms", 60_000),
        ("kafka.max.partition.fetch.bytes", 1_048_576),
    ],
)
def test_every_default_that_differs_from_java_gives_its_reason(name, javas):
    assert options.BY_NAME[name].default != javas
    assert options.BY_NAME[name].differs.startswith(f"{javas}. ")


def test_keys_are_case_insensitive_and_come_out_by_their_canonical_name():
    parsed = options.parse({"KAFKA.Bootstrap.Servers": "b:1", "MAXOFFSETSPERTRIGGER": "7"}, "source")
    assert parsed["kafka.bootstrap.servers"] == (("b", 1),)
    assert parsed["maxOffsetsPerTrigger"] == 7
    assert parsed.given == {"kafka.bootstrap.servers", "maxOffsetsPerTrigger"}


def test_options_survive_the_way_to_a_task():
    parsed = options.parse({**SERVERS, "topic": "t"}, "sink")
    assert dict(pickle.loads(pickle.dumps(parsed))) == dict(parsed)


def test_librdkafka_names_are_aliases():
    assert options.parse({**SERVERS, "kafka.compression.codec": "lz4"}, "sink")["kafka.compression.type"] == "lz4"


def test_an_option_given_under_two_names_is_refused():
    both = {**SERVERS, "kafka.compression.codec": "lz4", "kafka.compression.type": "zstd"}
    with pytest.raises(OptionError, match="are the same option"):
        options.parse(both, "sink")


@pytest.mark.parametrize(
    ("role", "written", "says"),
    [
        ("source", {}, "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"),
        ("sink", {}, "'kafka.bootstrap.servers' must be specified"),
        ("sink", {}, "Spark does not give the OPTIONS of a table to a Python source"),
        ("source", {"kafka.bootstrap.servers": "localhost"}, "host:port.*got 'localhost'"),
        ("source", {"kafka.bootstrap.servers": "::1:9092"}, "IPv6 addresses in brackets"),
        ("source", {"kafka.bootstrap.servers": "h:99999"}, "got 'h:99999'"),
        ("source", {**SERVERS, "failOnDataLoss": "maybe"}, "'failOnDataLoss': expected true or false, got 'maybe'"),
        ("source", {**SERVERS, "maxOffsetsPerTrigger": "0"}, "'maxOffsetsPerTrigger'.*at least|from 1 to"),
        ("source", {**SERVERS, "kafka.isolation.level": "x"}, "one of read_uncommitted, read_committed, got 'x'"),
        (
            "source",
            {**SERVERS, "kafka.auto.offset.reset": "latest"},
            "auto.offset.reset' is not supported: use startingOffsets",
        ),
        ("source", {**SERVERS, "kafka.key.deserializer": "x"}, "is not supported"),
        ("sink", {**SERVERS, "kafka.value.serializer": "x"}, "is not supported"),
        ("sink", {**SERVERS, "kafka.transactional.id": "x"}, "use deliveryGuarantee=exactly_once"),
        ("sink", {**SERVERS, "createTopic": "partitions=0", "topic": "t"}, "'createTopic': expected partitions=6"),
        ("sink", {**SERVERS, "createTopic": "six", "topic": "t"}, "'createTopic'.*got 'six'"),
        (
            "sink",
            {**SERVERS, "createTopic": "partition=3", "topic": "t"},
            "got 'partition=3': a topic has no setting 'partition' \\(did you mean 'partitions'\\?\\)$",
        ),
        (
            "sink",
            {**SERVERS, "createTopic": "partitions=3,replication.factor=2", "topic": "t"},
            "no setting 'replication.factor' \\(did you mean 'replication'\\?\\)$",
        ),
        (
            "sink",
            {**SERVERS, "createTopic": "replication-factor=2", "topic": "t"},
            "no setting 'replication-factor' \\(did you mean 'replication'\\?\\)$",
        ),
        ("sink", {**SERVERS, "createTopic": "compacted=true", "topic": "t"}, "a topic has no setting 'compacted'$"),
        ("sink", {**SERVERS, "createTopic": "partitions=6"}, "'createTopic' needs 'topic'"),
        ("sink", {**SERVERS, "partitioner": "mine"}, "murmur2, murmur2_round_robin or module:function, got 'mine'"),
        ("source", {**SERVERS, "path": "t"}, "use the option subscribe"),
        (
            "source",
            {**SERVERS, "kafka.security.protocol": "TLS"},
            "'kafka.security.protocol': expected one of PLAINTEXT, SSL",
        ),
        ("sink", {**SERVERS, "kafka.enable.idempotence": "true", "kafka.acks": "1"}, "needs 'kafka.acks'=all"),
        ("sink", {**SERVERS, "kafka.delivery.timeout.ms": "100"}, "'kafka.linger.ms' \\+ 'kafka.request.timeout.ms'"),
        ("sink", {**SERVERS, "kafka.buffer.memory": "2048"}, "'kafka.batch.size'.*larger than.*'kafka.buffer.memory'"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it_and_what_is_allowed(role, written, says):
    with pytest.raises(OptionError, match=says):
        options.parse(written, role)


@pytest.mark.parametrize("text", ["", "nonsense", "-1", "{", "module:"])
def test_an_error_for_the_value_of_an_option_names_the_option(text):
    said = []
    for row in options.OPTIONS:
        for role in row.used_by:
            topic = "subscribe" if role == "source" else "topic"
            try:
                options.parse({**SERVERS, topic: "t", row.name: text}, role, warn=options.no_warning)
            except OptionError as error:
                said.append(((row.name, *row.aliases), str(error).lower()))
    assert len(said) > len(options.OPTIONS) / 2
    assert [names for names, error in said if not any(name.lower() in error for name in names)] == []


def test_rules_name_options_of_the_same_role():
    for row in options.OPTIONS:
        for rule in (*row.only, *row.not_with):
            other = options.BY_NAME.get(rule.name)
            assert rule.name.lower() in options.SPARKS_OWN or set(row.used_by) <= set(other.used_by), (row.name, rule)
            assert not rule.mine or row.default not in rule.mine, f"{row.name}: its default breaks a rule"


@pytest.mark.parametrize(
    ("role", "written", "says"),
    [
        (
            "source",
            {"addHeaders": '{"a":"b"}'},
            "'addHeaders' needs 'packRecords'=true, got 'false': .* have the",
        ),
        (
            "source",
            {"groupOwnership": "exclusive"},
            "'groupOwnership'=exclusive needs 'kafka.group.id': .*Set ",
        ),
        (
            "source",
            {"groupOwnership": "exclusive", "kafka.group.id": "g", "commitOffsets": "false"},
            "'groupOwnership'=exclusive cannot be combined with 'commitOffsets'=false: .*Leave out one of the two",
        ),
        ("sink", {"kafka.enable.idempotence": "true", "kafka.max.in.flight": "6"}, "of at most 5, got '6'"),
        (
            "sink",
            {"kafka.enable.idempotence": "true", "kafka.retries": "0"},
            "'kafka.enable.idempotence'=true cannot be combined with 'kafka.retries'=0: .*Leave out one of the two",
        ),
        ("sink", {"clusters": "{}"}, "name one cluster by 'kafka.bootstrap.servers'"),
    ],
)
def test_options_that_contradict_each_other_are_an_error_with_a_next_step(role, written, says):
    with pytest.raises(OptionError, match=says):
        options.parse(SERVERS | written, role)


@pytest.mark.parametrize(
    ("written", "timeout_ms"),
    [({"kafka.request.timeout.ms": "120000"}, 120_100), ({"kafka.linger.ms": "100000"}, 130_000)],
)
def test_the_default_of_the_delivery_timeout_rises_to_what_other_options_need_and_that_is_said(written, timeout_ms):
    said = []
    assert options.parse(SERVERS | written, "sink", warn=said.append)["kafka.delivery.timeout.ms"] == timeout_ms
    (text,) = said
    assert text.startswith(f"option 'kafka.delivery.timeout.ms' is {timeout_ms} instead of its default 120000: ")


def test_a_feature_that_is_switched_off_needs_no_other_option():
    off = {"kafka.enable.idempotence": "false", "kafka.acks": "1", "atomicBatch": "false"}
    assert options.parse(SERVERS | off, "sink")["atomicBatch"] is False
    assert options.parse(SERVERS | {"groupOwnership": "shared", "commitOffsets": "false"}, "source")


EXACTLY_ONCE = {**SERVERS, "deliveryGuarantee": "exactly_once"}


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"kafka.acks": "1"}, "exactly_once needs 'kafka.acks'=all or -1, got '1'"),
        ({"kafka.enable.idempotence": "false"}, "cannot be combined with 'kafka.enable.idempotence'=false"),
        ({"kafka.retries": "0"}, "cannot be combined with 'kafka.retries'=0: Kafka's producer is not idempotent"),
        ({"kafka.max.in.flight": "6"}, "'kafka.max.in.flight.requests.per.connection' of at most 5, got '6'"),
        ({"asyncProgressTrackingEnabled": "True"}, "cannot be combined with 'asyncProgressTrackingEnabled'=true"),
    ],
)
def test_what_contradicts_exactly_once_is_refused(written, says):
    with pytest.raises(OptionError, match=says):
        options.parse(EXACTLY_ONCE | written, "sink")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("transactionalIdPrefix", "p"),
        ("atomicBatch", "true"),
        ("lostTransactions", "skip"),
        ("kafka.transaction.timeout.ms", "1"),
    ],
)
def test_what_needs_exactly_once_is_not_ignored_without_it(name, text):
    assert options.parse(EXACTLY_ONCE | {name: text}, "sink").given >= {name}
    with pytest.raises(
        OptionError, match=f"'{name}' needs 'deliveryGuarantee'=exactly_once, .*, or leave out '{name}'"
    ):
        options.parse(SERVERS | {name: text}, "sink")


def test_an_options_type_is_that_of_its_name_and_its_default():
    for row in options.OPTIONS:
        if row.name.endswith(".ms"):
            assert row.type in (MILLISECONDS, TEXT), row.name  # a TEXT may be a reference to a secret
        assert isinstance(row.default, bool) <= (row.type is BOOLEAN), row.name


def test_a_topic_to_create_keeps_commas_within_a_setting():
    written = SERVERS | {"topic": "t", "createTopic": "partitions=6, cleanup.policy=compact,delete,replication=3"}
    parsed = options.parse(written, "sink")["createTopic"]
    assert parsed == NewTopic(6, 3, (("cleanup.policy", "compact,delete"),))


# From Kafka's org.apache.kafka.common.config.TopicConfig (4.3).
@pytest.mark.parametrize("name", ["preallocate", "min.insync.replicas", "local.retention.ms", "compression.zstd.level"])
def test_every_setting_of_kafkas_topics_may_be_given(name):
    parsed = options.parse(SERVERS | {"topic": "t", "createTopic": f"{name}=1"}, "sink")["createTopic"]
    assert parsed == NewTopic(-1, -1, ((name, "1"),))


def test_options_of_streams_and_queries_have_no_effect_elsewhere_unless_they_are_off():
    written = {"subscribePattern": "t", "trigger": "once", "failOnDeletedTopic": "false", "packRecords": "true"}
    parsed = options.parse(SERVERS | written, "source")
    assert parsed.no_effect_in("batch") == ["failOnDeletedTopic", "trigger"]
    assert parsed.no_effect_in("reader") == ["failOnDeletedTopic", "packRecords", "trigger"]
    off = options.parse(SERVERS | {"commitOffsets": "false", "packRecords": "false"}, "source")
    assert off.no_effect_in("batch") == off.no_effect_in("reader") == []


def test_what_spark_adds_is_kept_apart():
    parsed = options.parse(SERVERS | {"checkpointLocation": "/c", "queryName": "q"}, "sink")
    assert parsed.sparks_own == {"checkpointlocation": "/c", "queryname": "q"}
    assert "checkpointlocation" not in parsed


# The beginnings are the JVM connector's own texts.
@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"startingTimestamp": "soon"}, "Expected a single long value.*milliseconds since 1970.*got 'soon'"),
        ({"endingTimestamp": "-3"}, "'endingTimestamp': Expected a single long value.*from -2 to.*got '-3'"),
        ({"minPartitions": "0"}, "minPartitions must be positive.*got '0'"),
        ({"minPartitions": "1.0"}, "'minPartitions'.*a whole number.*got '1.0'"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive.*got '-1'"),
        (
            {"minOffsetsPerTrigger": "16", "maxOffsetsPerTrigger": "15"},
            r"The value of minOffsetPerTrigger\(16\) is higher than the maxOffsetsPerTrigger\(15\)\.",
        ),
        ({"maxTriggerDelay": "soon"}, "'maxTriggerDelay': expected a duration such as 500ms, 5s, 15m"),
        ({"maxTriggerDelay": "1.5s"}, "got '1.5s'"),
        ({"maxBytesPerTrigger": "0"}, "'maxBytesPerTrigger': expected a size such as 64m"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "one of error, latest, got 'earliest'"),
        ({"minPartitions": "9", "maxPartitions": "8"}, r"'minPartitions' \(9\) is higher than 'maxPartitions' \(8\)"),
        (
            {"minRecordsPerPartition": "9", "maxRecordsPerPartition": "8"},
            r"'minRecordsPerPartition' \(9\) is higher than 'maxRecordsPerPartition' \(8\)",
        ),
        ({"commitOffsets": "true"}, "'commitOffsets' needs a group to commit to: set 'kafka.group.id'"),
    ],
)
def test_a_wrong_option_of_the_jvm_connector_is_told_in_its_words(written, says):
    with pytest.raises(OptionError, match=says):
        options.parse(SERVERS | written, "source")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("5s", 5_000),
        ("15m", 900_000),
        ("10MIN", 600_000),
        ("100", 100),
        ("250ms", 250),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
    ],
)
def test_a_delay_is_written_as_sparks_time_strings_are(text, ms):
    assert options.parse({**SERVERS, "maxTriggerDelay": text}, "source")["maxTriggerDelay"] == ms


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("64m", 67_108_864), ("1g", 1_073_741_824), ("10KB", 10_240)]
)
def test_a_size_is_written_as_sparks_are(text, size):
    assert options.parse({**SERVERS, "maxBytesPerTrigger": text}, "source")["maxBytesPerTrigger"] == size


def test_a_delay_is_fifteen_minutes_unless_told():
    assert options.parse(SERVERS, "source")["maxTriggerDelay"] == 15 * 60 * 1000


@pytest.mark.parametrize(
    ("written", "warns"),
    [
        ({"groupIdPrefix": "p"}, "'groupIdPrefix' has no effect"),
        ({"groupIdPrefix": "p", "kafka.group.id": "g"}, "'groupIdPrefix' will be ignored"),
        ({"groupIdPrefix": "p", "commitOffsets": "true"}, None),
        ({"kafka.group.id": "g"}, None),
        ({"kafka.group.id": "g", "commitOffsets": "false"}, None),
    ],
)
def test_a_group_prefix_without_effect_is_warned_of(written, warns, caplog):
    options.parse(SERVERS | written, "source")
    assert [warns in record.getMessage() for record in caplog.records] == ([True] if warns else [])


@pytest.mark.parametrize(
    ("name", "javas", "other"),
    [
        ("kafka.sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "/opt/kinit"),
        ("kafka.sasl.kerberos.min.time.before.relogin", "60000", "1"),
        ("kafka.sasl.oauthbearer.clock.skew.seconds", "30", "31"),
        ("kafka.ssl.trustmanager.algorithm", "PKIX", "SunX509"),
    ],
)
def test_an_option_that_is_refused_is_a_warning_at_the_value_that_it_has_in_java_anyway(name, javas, other, caplog):
    options.parse({**SERVERS, name: javas}, "source")
    assert [name in record.getMessage() for record in caplog.records] == [True]
    with pytest.raises(OptionError, match=name.removeprefix("kafka.")):
        options.parse({**SERVERS, name: other}, "source")


@pytest.mark.parametrize(
    ("servers", "protocol", "mechanism", "warns"),
    [
        ("kafka:9092", "SASL_PLAINTEXT", "PLAIN", "the password goes to kafka unencrypted"),
        ("localhost:9092,10.0.0.5:9092", "SASL_PLAINTEXT", "OAUTHBEARER", "the token goes to 10.0.0.5 unencrypted"),
        ("127.evil.example:9092", "SASL_PLAINTEXT", "PLAIN", "the password goes to 127.evil.example unencrypted"),
        ("127.0.0.1:9092,[::1]:9092,localhost:9092", "SASL_PLAINTEXT", "PLAIN", None),
        ("kafka:9092", "SASL_SSL", "PLAIN", None),
        ("kafka:9092", "SASL_PLAINTEXT", "SCRAM-SHA-512", None),  # no password is sent
    ],
)
def test_a_password_or_a_token_that_goes_unencrypted_to_another_machine_is_warned_of(
    servers, protocol, mechanism, warns, caplog
):
    given = {"sasl.oauthbearer.token.endpoint.url": "file:/t"}
    if mechanism != "OAUTHBEARER":
        given = {"sasl.username": "alice", "sasl.password": "geheim"}
    given |= {"bootstrap.servers": servers, "security.protocol": protocol, "sasl.mechanism": mechanism}
    options.parse({"subscribe": "t", **{f"kafka.{name}": text for name, text in given.items()}}, "source")
    assert [warns in record.getMessage() for record in caplog.records] == ([True] if warns else [])
    assert "geheim" not in caplog.text


# Answers of the validators of kafka-clients 3.9.2 and 4.3.1 to each of these levels.
LEVELS = (-131073, -131072, -2, -1, 0, 1, 9, 10, 17, 18, 22, 23)
JAVA_TAKES = {"gzip": (-1, 1, 9), "lz4": (1, 9, 10, 17), "zstd": (-131072, -2, -1, 0, 1, 9, 10, 17, 18, 22)}


@pytest.mark.parametrize("codec", JAVA_TAKES)
def test_a_compression_level_is_taken_where_java_takes_it(codec):
    name = f"kafka.compression.{codec}.level"
    for level in LEVELS:
        written = {**SERVERS, name: str(level)}
        if level in JAVA_TAKES[codec]:
            assert options.parse(written, "sink")[name] == level
        else:
            with pytest.raises(OptionError, match=f"'{name}': expected .* got '{level}'"):
                options.parse(written, "sink")


def test_the_value_of_a_secret_is_not_in_the_error_that_refuses_it():
    written = {**SERVERS, "kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": "password=hunter2"}
    with pytest.raises(OptionError) as refused:
        options.parse(written, "source")
    assert "hunter2" not in str(refused.value)
    assert "sasl.jaas.config" in str(refused.value)


@pytest.mark.parametrize(
    ("role", "key", "hint"),
    [
        ("source", "kafka.fetch.max.byte", "did you mean 'kafka.fetch.max.bytes'"),
        ("source", "startingOffset", "did you mean 'startingOffsets'"),
        ("sink", "startingOffsets", "it is an option for reading"),
        ("source", "somethingElseEntirely", "it has no effect"),
    ],
)
def test_an_unknown_option_warns_with_the_nearest_name(role, key, hint, caplog):
    options.parse({**SERVERS, key: "1"}, role)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert repr(key) in caplog.text
    assert hint in caplog.text


@pytest.mark.parametrize("key", ["subcribe", "SubscribePatern", "asign"])
def test_a_read_that_names_no_topics_is_told_which_option_it_misspelt(key):
    with pytest.raises(
        OptionError, match=rf"unknown option '{key}' .*did you mean '(subscribe|subscribePattern|assign)'"
    ):
        options.parse({**SERVERS, key: "events"}, "source")


@pytest.mark.parametrize(("role", "key"), [("source", "startingOffset"), ("sink", "startingOffsets")])
def test_an_unknown_option_is_an_error_where_the_user_wants_it_so(role, key, caplog):
    with pytest.raises(OptionError, match=f"unknown option '{key}'.*unknownOptions=fail"):
        options.parse({**SERVERS, "topic": "t", "other": "1", key: "1", "unknownOptions": "FAIL"}, role)
    assert caplog.records == []


def test_no_option_of_sparks_own_is_an_error_where_unknown_ones_are():
    assert options.parse({**SERVERS, "checkpointLocation": "/c", "queryName": "q", "unknownOptions": "fail"}, "sink")


def test_what_spark_adds_itself_does_not_warn(caplog):
    options.parse({**SERVERS, "checkpointLocation": "/c", "queryName": "q"}, "sink")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("given", "idle_ms"),
    [
        ({}, 540_000),
        ({"kafka.auth": "google"}, 540_000),
        ({"kafka.auth": "azure"}, 180_000),  # Event Hubs drops a connection that rests for 240 s
        ({"kafka.auth": "Azure", "kafka.connections.max.idle.ms": "60000"}, 60_000),
    ],
)
@pytest.mark.parametrize("role", ["source", "sink"])
def test_connections_rest_no_longer_than_the_vendor_lets_them_unless_told(role, given, idle_ms):
    written = {"kafka.bootstrap.servers": "name.servicebus.windows.net:9093", "topic": "t", "subscribe": "t", **given}
    del written["topic" if role == "source" else "subscribe"]
    parsed = options.parse(written, role)
    assert parsed["kafka.connections.max.idle.ms"] == idle_ms
    assert ClientConfig.from_options(parsed).connections_max_idle_ms == idle_ms


@pytest.mark.parametrize("text", ["", "a", "a:1,b", "a:70000"])
def test_wrong_servers_have_one_error_with_spark_and_without(text):
    errors = []
    for read in (options.BY_NAME["kafka.bootstrap.servers"].parse, ClientConfig.of):
        with pytest.raises(OptionError) as error:
            read(text)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert "'kafka.bootstrap.servers'" in errors[0]
