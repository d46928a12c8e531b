"""What a file says is to be mirrored, as queries; no broker is asked."""

import json
from dataclasses import replace

import pytest
from fake_broker import FakeKafka, serve
from fake_transactions import FakeTransaction

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.kafka.config import ClientConfig
from kafkasource.mirror import job, toml_file
from kafkasource.mirror.flow import Flow
from kafkasource.mirror.offset_map import _as_options as as_options
from kafkasource.mirror.plan import Plan, reader_options, routes
from kafkasource.mirror.positions import MirrorReader, PositionRecord
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.origin import UnlessFrom
from kafkasource.sink.clusters.transactions import guarantees
from kafkasource.sink.open_transactions import of_clusters
from kafkasource.source.plan.offsets import EARLIEST
from kafkasource.source.plan.positions import starting_position
from kafkasource.types import TopicPartition

A, B, C = ({"kafka.bootstrap.servers": f"{name}1:9092"} for name in "abc")
PREFIXED = "${source}.${topic}"


def plan(*flows, **more):
    return Plan({"A": A, "B": B, "C": C}, flows, "/ck", **more)


def taken(plan, source, target, topics):
    """Which of these topics of the source the target gets."""
    (route,) = [route for route in routes(plan) if route.source == source]
    (flow,) = [flow for flow in route.flows if flow.target == target]
    return [topic for topic in topics if route.takes(flow, topic)]


@pytest.mark.parametrize("known", [{}, {TopicPartition("t", 0): 5}])
def test_a_partition_that_comes_between_the_plan_and_the_first_micro_batch_is_read_from_its_beginning(known):
    mirror = plan(Flow("A", "B", topics=("t.*",)))
    (route,) = routes(mirror)
    reader = MirrorReader("2", route.rules.flows, known)
    record = PositionRecord(2, "A", {}, route.rules, (reader,), {}, {})
    read, _ = reader_options(mirror, route, record, reader)
    start = starting_position(options.parse(read, "source"), streaming=True)
    new = TopicPartition("t-new", 0)
    assert start.written({*known, new}) == {**known, new: EARLIEST}
    assert start.covered({*known, new}) == {*known, new}


def test_the_options_of_a_client_of_the_offset_map_are_for_reading_and_for_writing_alike(caplog):
    client = ClientConfig.of("[::1]:9092,b:1", group_protocol="consumer", request_timeout_ms=1234)
    for role, more in (("source", {"subscribe": "map"}), ("sink", {"topic": "map", "kafka.acks": "all"})):
        assert ClientConfig.from_options(options.parse({**as_options(client), **more}, role)) == replace(
            client, group_protocol="classic"
        )
    assert caplog.messages == []


def clusters(route):
    return json.loads(route.write["clusters"])


FILE = """
checkpoint = "/checkpoints/mirror/"
trigger = "2 seconds"
metrics = "9404"
read.maxOffsetsPerTrigger = 100000
spark.sql.execution.arrow.maxRecordsPerBatch = 2000

[clusters.A]
kafka.bootstrap.servers = "a1:9092"
kafka.group.id = "mirror"                  # for reading
[clusters.B]
"kafka.bootstrap.servers" = "b1:9092"
kafka.compression.type = "zstd"            # for writing
kafka.request.timeout.ms = 20000           # for both
[clusters.C]
kafka.bootstrap.servers = "c1:9092"

[[flows]]
from = "A"
to = ["B", "C"]
topics = ["orders.*", "customers"]
exclude = "orders-test.*"
topic = "${source}.${topic}"
options.onSlowCluster = "discard"
"""


def test_one_cluster_is_read_once_for_all_its_targets():
    mirror = toml_file.parse(FILE, "mirror.toml")
    assert mirror.spark == {"spark.sql.execution.arrow.maxRecordsPerBatch": "2000"}
    assert (mirror.metrics_host, mirror.metrics_port) == ("127.0.0.1", 9404)
    (route,) = job.check(mirror)
    assert route.name == "mirror-A"
    assert route.checkpoint == "/checkpoints/mirror/A"
    assert route.read["kafka.bootstrap.servers"] == "a1:9092"
    assert route.read["kafka.group.id"] == "mirror"
    assert route.read["maxOffsetsPerTrigger"] == "100000"
    assert route.read["startingOffsets"] == "earliest"
    assert clusters(route).keys() == {"B", "C"}
    assert (
        clusters(route)["B"].items()
        >= {
            "kafka.bootstrap.servers": "b1:9092",
            "kafka.compression.type": "zstd",
            "kafka.request.timeout.ms": "20000",
            "topic": "A.${topic}",
            "onSlowCluster": "discard",
            "offsetMap": "mirror-offsets.A.internal",
        }.items()
    )
    assert clusters(route)["C"]["kafka.bootstrap.servers"] == "c1:9092"


def test_topics_are_named_whole_and_kafkas_own_are_not_mirrored():
    mirror = toml_file.parse(FILE, "mirror.toml")
    names = ["orders", "orders-eu", "orders-test1", "customers", "customers2", "my-orders", "__consumer_offsets"]
    assert taken(mirror, "A", "B", names) == ["orders", "orders-eu", "customers"]
    everything = plan(Flow("A", "B"))
    names = ["x", "__consumer_offsets", "mirror-offsets.C.internal", "mm2-configs.B.internal"]
    assert taken(everything, "A", "B", names) == ["x"]
    by_name = plan(Flow("A", "B", topics=("app.internal", "x")))
    assert taken(by_name, "A", "B", ["app.internal", "x", "other.internal"]) == ["app.internal", "x"]


def test_targets_that_get_different_topics_still_share_one_read():
    mirror = plan(Flow("A", "B", topics=("x.*",)), Flow("A", "C", topics=(".*y",)))
    (route,) = routes(mirror)
    assert taken(mirror, "A", "B", ["x1", "xy", "y"]) == ["x1", "xy"]
    assert taken(mirror, "A", "C", ["x1", "xy", "y"]) == ["xy", "y"]
    from kafkasource.source.plan.subscription import SubscribePattern

    pattern = SubscribePattern(route.read["subscribePattern"])
    assert [name for name in ("x1", "xy", "y", "z") if pattern.matches(name)] == ["x1", "xy", "y"]


def test_where_names_tell_where_a_topic_has_been_it_is_not_carried_back():
    mirror = plan(*(Flow(s, t, topic=PREFIXED) for s, t in ("AB", "BA")))
    names = ["orders", "A.orders", "B.orders", "C.orders", "A.B.orders", "C.A.orders", "Aorders", "A2.orders"]
    assert taken(mirror, "B", "A", names) == ["orders", "B.orders", "C.orders", "Aorders", "A2.orders"]
    assert not any("unlessOrigin" in one for route in routes(mirror) for one in clusters(route).values())


def test_it_is_not_carried_back_round_three_corners_either():
    mirror = plan(*(Flow(s, t, topic=PREFIXED) for s, t in ("AB", "BC", "CA")))
    assert taken(mirror, "C", "A", ["B.A.orders", "B.orders", "orders"]) == ["B.orders", "orders"]
    assert taken(mirror, "A", "B", ["C.B.A.x", "C.B.x", "C.x"]) == ["C.x"]


def left_out(mirror):
    """By flow, the clusters whose records of a topic `t` it leaves out, by their headers."""
    found = {}
    for route in routes(mirror):
        for target, own in clusters(route).items():
            unless = UnlessFrom.from_json(own["unlessOrigin"])
            chains = {name: [f"{name}/t".encode(), f"{route.source}/t".encode()] for name in "ABC"}
            found[f"{route.source}->{target}"] = [
                name for name in chains if name != route.source and unless.leaves_out("t", chains[name])
            ]
    return found


def test_where_names_do_not_tell_headers_do():
    mirror = plan(Flow("A", "B"), Flow("B", "A"))
    there, back = routes(mirror, {"A": "id-of-a", "B": None})
    assert json.loads(there.read["addHeaders"]) == {"mirror.origin": "id-of-a/${topic}"}
    assert json.loads(back.read["addHeaders"]) == {"mirror.origin": "B/${topic}"}  # a broker that has no cluster id
    assert json.loads(clusters(there)["B"]["unlessOrigin"])["target"] == "B"
    assert json.loads(clusters(back)["A"]["unlessOrigin"])["target"] == "id-of-a"


def test_two_names_of_one_cluster_are_refused_as_the_mirror_would_copy_its_copies_without_end():
    mirror = plan(Flow("A", "B"), Flow("A", "C"))
    with pytest.raises(OptionError, match=r"flow A->C: A and C have the same cluster id, one-id\. .* correct"):
        routes(mirror, {"A": "one-id", "B": "other", "C": "one-id"})
    for ids in ({"A": None, "B": None, "C": None}, {"A": "a", "B": "one-id", "C": "one-id"}):
        assert routes(mirror, ids)  # not known; or two ways to write to one cluster


def test_a_mirror_one_way_that_keeps_names_can_become_one_of_both_ways():
    """Its copies have headers from the beginning, and the flow back leaves these out."""
    (route,) = routes(plan(Flow("A", "B")))
    assert json.loads(route.read["addHeaders"]) == {"mirror.origin": "A/${topic}"}
    assert left_out(plan(Flow("A", "B"), Flow("B", "A")))["B->A"] == ["A"]


def test_mirrors_of_two_files_that_go_back_and_forth_leave_out_each_others_copies():
    assert left_out(plan(Flow("A", "B"))) == {"A->B": ["B"]}
    assert left_out(plan(Flow("B", "A"))) == {"B->A": ["A"]}


def test_a_mirror_adds_no_headers_where_names_tell_or_the_flow_says_so():
    for flow in (Flow("A", "B", topic=PREFIXED), Flow("A", "B", origin_header=False)):
        (route,) = routes(plan(flow))
        assert not route.headers
        assert "addHeaders" not in route.read
    both_ways = plan(Flow("A", "B", origin_header=False), Flow("B", "A"))
    assert all(route.headers for route in routes(both_ways))  # there it cannot do without
    assert routes(plan(Flow("A", "B"), provenance=True))[0].headers.keys() == {"mirror.origin", "mirror.record"}


def test_where_each_mirrors_to_each_a_record_comes_once():
    mirror = plan(*(Flow(s, t) for s in "ABC" for t in "ABC" if s != t))
    carried_not = left_out(mirror)
    assert carried_not["B->C"] == ["A", "C"]  # A's come to C straight
    assert carried_not["A->B"] == ["B", "C"]


def test_a_record_that_comes_two_ways_under_one_name_is_carried_on_one():
    mirror = plan(Flow("A", "B"), Flow("B", "C"), Flow("A", "C"))
    assert left_out(mirror) == {"A->B": ["B"], "A->C": ["C"], "B->C": ["A", "C"]}


def test_a_micro_batch_has_an_end_unless_the_file_says_which():
    ours = routes(plan(Flow("A", "B")))[0].read
    assert (ours["maxOffsetsPerTrigger"], ours["maxBytesPerTrigger"]) == ("2000000", "512m")
    for given in ({"maxBytesPerTrigger": "1g"}, {"maxOffsetsPerTrigger": "7"}):
        read = routes(plan(Flow("A", "B"), read=given))[0].read
        assert {key: read[key] for key in ours.keys() & read.keys() if key.endswith("PerTrigger")} == given


def test_options_of_the_whole_write_stand_outside_of_its_clusters():
    (route,) = job.check(plan(Flow("A", "B"), write={"memoryBudget": "64m"}, read={"memoryBudget": "64m"}))
    assert route.write["memoryBudget"] == route.read["memoryBudget"] == "64m"
    assert "memoryBudget" not in clusters(route)["B"]


def test_a_clusters_name_is_part_of_topics_and_options_and_so_plain():
    with pytest.raises(OptionError, match="letters, digits"):
        Plan({"A.1": A, "B": B}, (Flow("A.1", "B"),))


def test_exactly_once_mirrors_only_what_is_committed():
    (route,) = routes(plan(Flow("A", "B"), exactly_once=True))
    assert route.read["kafka.isolation.level"] == "read_committed"
    assert route.write["deliveryGuarantee"] == "exactly_once"


def test_two_sources_into_one_target_share_no_transactional_id_although_the_file_gives_one_prefix():
    """A second producer that asks for a transactional id fences the first (KIP-98)."""
    mirror = plan(
        *(Flow(source, "C", topic=PREFIXED) for source in "AB"),
        exactly_once=True,
        write={"transactionalidprefix": "m"},  # Spark's options have no case
    )
    ids = []
    for route in job.check(mirror):
        parsed = targets.parse(dict(route.write))
        for name, guarantee in guarantees(parsed.shared, parsed.by_name, batch_write=False).items():
            of_target = guarantee.identity.find().of_cluster(name).ids
            ids += [of_target.driver, of_target.marker_group, of_target.kept_group, of_target.task(0)]
    assert len(set(ids)) == 8
    assert all(each.startswith("m") for each in ids)  # so that ACLs for all that begins with the prefix hold
    assert ids[0] == "m.A-C-driver"


def test_what_an_exactly_once_mirror_has_open_is_found_by_its_routes_options(tmp_path):
    """As `start` gives them to the metrics."""
    (tmp_path / "A").mkdir()
    (tmp_path / "A" / "metadata").write_text('{"id":"q-1"}')
    b, c = FakeKafka(topics={"t": 1}), FakeKafka(topics={"t": 1})
    b.transactions = {"kafkasource-q-1-B-0": FakeTransaction(1, state="Ongoing", partitions={("t", 0)})}
    with serve(b) as here, serve(c) as there:
        clusters = {"A": A, "B": servers(here), "C": servers(there)}
        made = Plan(clusters, (Flow("A", "B"), Flow("A", "C")), str(tmp_path), exactly_once=True)
        (route,) = routes(made)
        found = of_clusters({**route.write, "checkpointLocation": str(route.checkpoint)})
    assert [each.name for each in found["B"]] == ["kafkasource-q-1-B-0"]  # type: ignore[union-attr]
    assert found["C"] == []


def servers(address):
    return {"kafka.bootstrap.servers": "{}:{}".format(*address)}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("[[flows]]", "[[flow]]"), "unknown key flow: did you mean flows"),
        (('from = "A"', ""), "each flow needs from = and to ="),
        (('from = "A"', 'from = "D"'), "flow D->B: there is no cluster 'D', only A, B, C"),
        (('to = ["B", "C"]', 'to = "A"'), "flow A->A: a cluster cannot be mirrored to itself"),
        (('to = ["B", "C"]', 'to = ["B", "B"]'), "flow A->B exists twice"),
        (('exclude = "orders-test.*"', 'exclude = "["'), r"flow A->B: '\[' is not a usable regular expression"),
        (('topic = "${source}.${topic}"', 'topic = "all"'), "all topics would become one"),
        (('"kafka.bootstrap.servers" = "b1:9092"', ""), "cluster 'B': set its kafka.bootstrap.servers"),
        (("onSlowCluster", "onSlowCluter"), "unknown option 'onSlowCluter': did you mean 'onSlowCluster'"),
        (('"discard"', '"drop"'), "expected one of block, discard, fail"),
        (('checkpoint = "/checkpoints/mirror/"', ""), "needs a checkpoint"),
        (('trigger = "2 seconds"', "trigger = 2"), "trigger: expected a text"),
        (('"9404"', '"here"'), "metrics: expected"),
        (
            ("options.onSlowCluster", 'options.topic = "t"\noptions.onSlowCluster'),
            "'topic': the mirror sets this option",
        ),
        (("read.maxOffsetsPerTrigger", 'read.subscribe = "t"\nread.maxOffsetsPerTrigger'), "'subscribe': the mirror"),
        (("[clusters.A]", "[clusters.A"), "mirror.toml: not TOML"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_what_is_wrong(change, text):
    with pytest.raises(OptionError, match=text):
        job.check(toml_file.parse(FILE.replace(*change), "mirror.toml"))
