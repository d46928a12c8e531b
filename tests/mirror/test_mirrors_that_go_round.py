"""No plan carries a record back to a cluster where it was, or to one cluster twice.

The oracle plays the queries: it takes what Spark is given (`subscribePattern`, `onlyTopics`, `unlessOrigin`, `topic`,
the headers that are added) and carries one record from cluster to cluster by hand.
"""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_inputs import examples

from kafkasource.errors import OptionError
from kafkasource.mirror import job
from kafkasource.mirror.flow import Flow, pattern_of
from kafkasource.mirror.plan import Plan, routes
from kafkasource.sink.clusters.origin import UnlessFrom

SAME, PREFIXED = "${topic}", "${source}.${topic}"
MOST_STEPS = 400  # of one record; the largest plan here has four clusters


def plan(*flows, **more):
    names = {name for flow in flows for name in (flow.source, flow.target)}
    return Plan({name: {"kafka.bootstrap.servers": f"{name}:9092"} for name in names}, flows, "/ck", **more)


class Queries:
    """What Spark is given, played."""

    def __init__(self, plan):
        self.by_source = {route.source: (route.read, json.loads(route.write["clusters"])) for route in routes(plan)}

    def deliveries(self, origin, topic):
        """(cluster, topic there) of each time that a record is written, or None: it goes on without end."""
        waiting, found = [(origin, topic, ())], []
        for _ in range(MOST_STEPS):
            if not waiting:
                return found
            here, name, headers = waiting.pop(0)
            if here not in self.by_source:
                continue
            read, targets = self.by_source[here]
            if not re.search(read["subscribePattern"], name):
                continue
            added = json.loads(read.get("addHeaders", "{}")).values()
            headers += tuple(value.replace("${topic}", name).encode() for value in added)
            for target, own in targets.items():
                unless = UnlessFrom.from_json(own["unlessOrigin"]) if "unlessOrigin" in own else None
                left_out = unless is not None and headers and unless.leaves_out(name, headers)
                if re.search(own["onlyTopics"], name) and not left_out:
                    new = own["topic"].replace("${topic}", name)
                    found.append((target, new))
                    waiting.append((target, new, headers))
        return None


def wrong_deliveries(plan, topics):
    """Of records of these topics, made in each cluster in turn."""
    queries = Queries(plan)
    wrong = []
    for origin in plan.clusters:
        for topic in topics:
            found = queries.deliveries(origin, topic)
            reached = None if found is None else [origin, *(cluster for cluster, _ in found)]
            if reached is None or len(set(reached)) < len(reached):
                wrong.append((origin, topic, found and found[:10]))
    return wrong


# What people set up. Each must be accepted.
USUAL = {
    "one way": [Flow("a", "b")],
    "one way, prefixed": [Flow("a", "b", topic=PREFIXED)],
    "one way, any name": [Flow("a", "b", topic="copy.${topic}")],
    "two ways, prefixed": [Flow("a", "b", topic=PREFIXED), Flow("b", "a", topic=PREFIXED)],
    "two ways, one name": [Flow("a", "b"), Flow("b", "a")],
    "two ways, one prefixed": [Flow("a", "b", topic=PREFIXED), Flow("b", "a")],
    "two ways, two separators": [Flow("a", "b", topic=PREFIXED), Flow("b", "a", topic="${source}-${topic}")],
    "two ways, copies": [Flow("a", "b", topic="copy.${topic}"), Flow("b", "a", topic="copy.${topic}")],
    "hub to spokes": [Flow("hub", name) for name in "abc"],
    "spokes to hub": [Flow(name, "hub", topic=PREFIXED) for name in "abc"],
    "hub and spokes": [Flow(*ends, topic=PREFIXED) for name in "abc" for ends in ((name, "hub"), ("hub", name))],
    "hub and spokes, one name": [Flow(*ends) for name in "abc" for ends in ((name, "hub"), ("hub", name))],
    "ring, one separator": [Flow(s, t, topic=PREFIXED) for s, t in ("ab", "bc", "ca")],
    "ring, two separators": [
        Flow("a", "b", topic=PREFIXED),
        Flow("b", "c", topic="${source}-${topic}"),
        Flow("c", "a", topic=PREFIXED),
    ],
    "ring, one name": [Flow(s, t) for s, t in ("ab", "bc", "ca")],
    "mesh, prefixed": [Flow(s, t, topic=PREFIXED) for s in "abcd" for t in "abcd" if s != t],
    "mesh, one name": [Flow(s, t) for s in "abcd" for t in "abcd" if s != t],
    "chain": [Flow("a", "b"), Flow("b", "c"), Flow("c", "d")],
    "two ways to one, one name": [Flow("a", "b"), Flow("b", "c"), Flow("a", "c")],
    "two ways to one, other names": [Flow("a", "b", topic=PREFIXED), Flow("b", "c"), Flow("a", "c")],
    "two ways to one, copies": [
        Flow("a", "b"),
        Flow("a", "c", topic="copy.${topic}"),
        Flow("b", "c", topic="copy.${topic}"),
    ],
    "a diamond of different topics": [
        Flow("a", "b", topics=("orders.*",)),
        Flow("a", "c", topics=("customers.*",)),
        Flow("b", "d"),
        Flow("c", "d"),
    ],
    "one cluster's name begins another's": [
        Flow("east", "eastern", topic=PREFIXED),
        Flow("eastern", "east", topic=PREFIXED),
    ],
    "to an archive from both of two": [
        Flow("a", "b", topic=PREFIXED),
        Flow("b", "a", topic=PREFIXED),
        Flow("a", "archive", topic=PREFIXED),
        Flow("b", "archive", topic=PREFIXED),
    ],
}
TOPICS = ("t", "orders", "customers-eu", "x.y-z")


@pytest.mark.parametrize("name", USUAL)
def test_what_people_set_up_is_accepted_and_carries_each_record_once(name):
    there = plan(*USUAL[name])
    job.check(there)
    assert wrong_deliveries(there, TOPICS) == []


@pytest.mark.parametrize("name", [name for name in USUAL if "different" not in name])
def test_it_still_gets_to_every_cluster_that_flows_lead_to(name):
    """So that nothing is bought by carrying less."""
    there = plan(*USUAL[name])
    for origin in there.clusters:
        reached, new = {origin}, {origin}
        while new:
            new = {flow.target for flow in there.flows if flow.source in new} - reached
            reached |= new
        for topic in TOPICS:
            assert {origin, *(cluster for cluster, _ in Queries(there).deliveries(origin, topic))} == reached


CLUSTERS = (("a", "b", "c", "d"), ("east", "eastern", "west", "w"), ("a", "a-b", "b", "b-a"))
TEMPLATES = (
    *[SAME, PREFIXED, "${source}-${topic}", "${source}_${topic}", "copy.${topic}", "${topic}.${source}"],
    *["${source}.copy.${topic}", "from-${source}.${topic}", "${source}ern.${topic}", "a.${topic}", "eastern.${topic}"],
    "${source}-b.${topic}",
)
SOME_TOPICS = ((".*",), (".*",), (".*",), ("t",), ("t", "orders.*"), (".*[.-]t",), ("(?!copy).*",), ("[a-c].*",))
NAMES = ("t", "orders", "a.t", "b-t", "copy.t", "t.b", "eastern.t", "a-b.t", "from-a.t")
PLAIN_NAMES = ("t", "orders", "xyz", "copy.t")  # not such as a flow between the clusters makes


@st.composite
def flows(draw):
    names = draw(st.sampled_from(CLUSTERS))[: draw(st.integers(2, 4))]
    ends = [(s, t) for s in names for t in names if s != t]
    chosen = draw(st.lists(st.sampled_from(ends), min_size=1, max_size=8, unique=True))
    few = draw(st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=3))
    return [
        Flow(
            *pair,
            topic=draw(st.sampled_from(few)),
            topics=draw(st.sampled_from(SOME_TOPICS)),
            exclude=draw(st.sampled_from(((), (), (), ("copy.*",), ("orders",)))),
        )
        for pair in chosen
    ]


def ways(there, origin, topic):
    """As `Queries.deliveries`, were nothing stopped but what comes to a cluster where it was."""
    waiting, found = [(origin, topic, {origin})], []
    while waiting:
        here, name, been = waiting.pop()
        for flow in there:
            if (
                flow.source == here
                and flow.target not in been
                and re.search(pattern_of(flow.topics, flow.exclude), name)
            ):
                new = flow.topic.replace("${source}", here).replace("${topic}", name)
                found.append((flow.target, new))
                waiting.append((flow.target, new, been | {flow.target}))
    return found


MISSED = re.compile(
    r"(?P<end>\S+) gets no record of topic '(?P<topic>.+?)' of (?P<origin>\S+): (?P<here>\S+) has them under the "
    r"name '(?P<name>.+?)', which (?P<flow>\S+) does not take, and so not under the name '(?P<other>.+?)'. "
    r"Let (?P=flow) take"
)


def missed_clusters(there, origin, topic):
    """Those to which flows could carry the record, were a longer way open to it, too."""
    reached = {cluster for cluster, _ in Queries(there).deliveries(origin, topic)}
    return {cluster for cluster, _ in ways(there.flows, origin, topic)} - reached


def is_true(warning, flows):
    """Does what the warning says of a record hold, were nothing stopped?"""
    missed = MISSED.match(warning)
    assert missed, warning
    come = ways(flows, missed["origin"], missed["topic"])
    (last,) = [flow for flow in flows if str(flow) == missed["flow"]]
    return (
        (last.source, last.target) == (missed["here"], missed["end"])
        and {(missed["here"], missed["name"]), (missed["here"], missed["other"])} <= set(come)
        and missed["end"] in [cluster for cluster, _ in come]
        and re.search(last.pattern, missed["other"])
        and not re.search(last.pattern, missed["name"])
    )


@given(flows=flows())
@settings(max_examples=examples(120), deadline=None)
def test_each_record_comes_once_to_every_cluster_that_it_may_get_to_or_the_mirror_says_that_it_does_not(flows):
    try:
        there, refused = plan(*flows), ""
    except OptionError as error:
        refused = str(error)
    if refused:
        assert is_true(refused, flows)
        return
    assert wrong_deliveries(there, NAMES) == []
    for route in routes(there):
        for topic in PLAIN_NAMES:
            warning = route.missed(topic)
            assert bool(missed_clusters(there, route.source, topic)) == (warning is not None)
            assert warning is None or is_true(warning, flows)


def behind_a_hub(to_b=("t",), a_to_c=PREFIXED):
    return [
        Flow("c", "d"),
        Flow("c", "b", topics=to_b),
        Flow("a", "d"),
        Flow("a", "c", topic=a_to_c),
        Flow("d", "c"),
    ]


WHAT_B_MISSES = (
    "b gets no record of topic 't' of a: c has them under the name 'a.t', which c->b does not take, and so not under "
    "the name 't'. Let c->b take 'a.t' too, or give the topic one name at c"
)


def test_a_plan_that_names_a_topic_is_refused_if_a_cluster_behind_a_hub_misses_it():
    """c has a's t as a.t, so d->c leaves it out, under the only name that c->b takes."""
    with pytest.raises(OptionError) as caught:
        plan(*behind_a_hub())
    assert str(caught.value) == WHAT_B_MISSES


def test_of_a_topic_that_an_expression_takes_the_mirror_warns_once_it_is_there():
    there = plan(*behind_a_hub(to_b=("t.?",)))
    (route,) = [route for route in routes(there) if route.source == "a"]
    assert (route.missed("t"), route.missed("other")) == (WHAT_B_MISSES, None)


@pytest.mark.parametrize("flows", [behind_a_hub(to_b=("t", r"a\.t")), behind_a_hub(a_to_c=SAME)])
def test_each_change_that_the_error_names_lets_the_record_get_to_the_clusters_behind(flows):
    assert missed_clusters(plan(*flows), "a", "t") == set()
    assert wrong_deliveries(plan(*flows), TOPICS) == []


def test_of_two_ways_of_the_same_length_a_record_takes_the_one_whose_last_flow_stands_first():
    diamond = [Flow("a", "b"), Flow("a", "c"), Flow("c", "d"), Flow("b", "d")]
    assert Queries(plan(*diamond)).deliveries("a", "t") == [("b", "t"), ("c", "t"), ("d", "t")]
    assert wrong_deliveries(plan(*diamond), TOPICS) == []


@pytest.mark.parametrize("topic", [SAME, PREFIXED])
def test_a_mesh_of_eight_carries_each_record_once_to_each_cluster(topic):
    eight = "abcdefgh"
    there = plan(*(Flow(s, t, topic=topic) for s in eight for t in eight if s != t))
    assert wrong_deliveries(there, ["t"]) == []
    assert {cluster for cluster, _ in Queries(there).deliveries("a", "t")} == set("bcdefgh")


def test_no_header_is_added_and_no_copy_is_read_where_names_tell_the_way():
    mesh = plan(*(Flow(s, t, topic=PREFIXED) for s in "abc" for t in "abc" if s != t))
    for route in routes(mesh):
        assert not route.headers
        assert not re.search(route.read["subscribePattern"], "b.orders" if route.source != "b" else "a.orders")
