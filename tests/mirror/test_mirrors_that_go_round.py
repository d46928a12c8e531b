"""No plan that is accepted carries a record back to a cluster where it was, or to one cluster twice.

The oracle plays the queries: it takes what Spark is given (`subscribePattern`, `onlyTopics`, `unlessOrigin`, `topic`,
the headers that are added) and carries one record from cluster to cluster by hand.
"""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_inputs import examples

from kafkasource.errors import OptionError
from kafkasource.mirror import circles, job, names
from kafkasource.mirror.flow import Flow, pattern_of
from kafkasource.mirror.plan import Plan, routes

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
            headers += tuple(value.partition("/")[0] for value in json.loads(read.get("addHeaders", "{}")).values())
            for target, own in targets.items():
                left_out = json.loads(own.get("unlessOrigin", '{"clusters": []}'))["clusters"]
                if re.search(own["onlyTopics"], name) and not set(left_out) & set(headers):
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


TWICE = re.compile(r"a record of topic '(.+?)' of (\S+) would come to (\S+) twice")
MISSED = re.compile(
    r"(?P<end>\S+) would get no record of topic '(?P<topic>.+?)' of (?P<origin>\S+): (?P<here>\S+) has them under the "
    r"name '(?P<name>.+?)' \(by .+?\), so the mirror does not carry them there under the name '(?P<other>.+?)' too "
    r"\(by .+?\), and (?P<flow>\S+) does not take '(?P=name)'. Let (?P=flow) take names like '(?P=name)' too"
)


def is_carried_to_all(there, topics):
    queries = Queries(there)
    return all(
        {cluster for cluster, _ in queries.deliveries(origin, topic)}
        == {cluster for cluster, _ in ways(there.flows, origin, topic)}
        for origin in there.clusters
        for topic in topics
    )


def is_true(error, flows):
    """Does what the error says of a record hold, were nothing stopped?"""
    twice, missed = TWICE.match(error), MISSED.match(error)
    if twice:
        topic, origin, target = twice.groups()
        return [cluster for cluster, _ in ways(flows, origin, topic)].count(target) > 1
    assert missed, error
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
def test_an_accepted_plan_carries_each_record_once_to_every_cluster_that_it_may_get_to(flows):
    """And of a refused one the error says the truth."""
    try:
        there, refused = plan(*flows), ""
    except OptionError as error:
        refused = str(error)
    if refused:
        assert is_true(refused, flows)
        return
    assert wrong_deliveries(there, NAMES) == []
    assert is_carried_to_all(there, PLAIN_NAMES)


def behind_a_hub(to_b=("t",), a_to_c=PREFIXED):
    return [
        Flow("c", "d"),
        Flow("c", "b", topics=to_b),
        Flow("a", "d"),
        Flow("a", "c", topic=a_to_c),
        Flow("d", "c"),
    ]


def test_a_plan_is_refused_if_the_clusters_behind_a_hub_take_only_a_name_that_the_hub_does_not_have():
    """c has a's t as a.t, so d->c leaves it out, under the only name that c->b takes."""
    flows = behind_a_hub()
    with pytest.raises(OptionError) as caught:
        plan(*flows)
    assert str(caught.value) == (
        "b would get no record of topic 't' of a: c has them under the name 'a.t' (by a->c), so the mirror does not "
        "carry them there under the name 't' too (by a->d, d->c), and c->b does not take 'a.t'. Let c->b take names "
        "like 'a.t' too, or give the topics one name at c; if b is not to have them, exclude them from d->c"
    )
    assert is_true(str(caught.value), flows)


def test_also_if_the_cluster_is_several_flows_behind_the_hub():
    there = [Flow("a", "c", topic=PREFIXED), Flow("a", "d"), Flow("d", "c"), Flow("c", "e"), Flow("e", "f")]
    assert is_carried_to_all(plan(*there), TOPICS)
    there[-1] = Flow("e", "f", topics=("t",))
    with pytest.raises(OptionError, match=r"^f would get no record of topic 't' of a: e has them under the name 'a.t'"):
        plan(*there)


@pytest.mark.parametrize(
    "flows",
    [
        behind_a_hub(to_b=("t", r"a\.t")),
        behind_a_hub(a_to_c=SAME),
        [replace(flow, exclude=("t",)) if str(flow) == "d->c" else flow for flow in behind_a_hub()],
    ],
)
def test_each_change_that_the_error_names_lets_the_record_get_to_the_clusters_behind(flows):
    assert is_carried_to_all(plan(*flows), TOPICS)
    assert wrong_deliveries(plan(*flows), TOPICS) == []


def test_a_plan_is_refused_if_its_expressions_are_too_hard_to_tell_whether_a_cluster_behind_misses_records(
    monkeypatch,
):
    monkeypatch.setattr(names, "_MOST_STATES", 200)  # fewer than the 256 of this expression
    with pytest.raises(
        OptionError, match=r"^b may miss records of a: .* by a->d, d->c, and c->b may not take the names"
    ):
        plan(*behind_a_hub(to_b=(".*t.{8}",)))


@pytest.mark.parametrize(
    ("flows", "said"),
    [
        (
            [Flow("a", "b"), Flow("a", "c"), Flow("b", "d"), Flow("c", "d")],
            "a record of topic 'a' of a would come to d twice: by a->c, c->d and by a->b, b->d. Leave out",
        ),
        (
            [Flow("a", "b"), Flow("a", "c", exclude=("orders",)), Flow("b", "c", topics=("orders.*",))],
            "a record of topic 'ordersa' of a would come to c twice: by a->c and by a->b, b->c. Leave out",
        ),
    ],
)
def test_a_plan_that_carries_a_record_twice_is_refused_with_the_record_and_both_ways(flows, said):
    with pytest.raises(OptionError) as caught:
        plan(*flows)
    assert str(caught.value).startswith(said)
    assert "topics or exclude that do not overlap" in str(caught.value)


def test_an_error_names_the_flows_that_carry_records_round():
    """Were nothing stopped; in a whole plan something is."""
    ring = [Flow(s, t, topic="copy.${topic}") for s, t in ("ab", "bc", "ca")]
    search = circles._Search(ring, {str(flow): flow.pattern for flow in ring})
    error = search.run({str(flow): circles.Stop() for flow in ring}, at_most=100).error
    assert error.startswith(
        "the flows a->b, b->c, c->a carry records round: one of topic 'a' of a would come to a again"
    )
    assert 'topic = "${source}.${topic}"' in error


def test_an_expression_that_is_too_hard_is_said_where_the_plan_is_refused_for_it():
    flows = [Flow("a", "b"), Flow("a", "c", topics=(r"(x|y)\1",)), Flow("b", "d", topics=("z",)), Flow("c", "d")]
    with pytest.raises(OptionError, match=r"would come to d twice.* \(One of their expressions is too hard"):
        plan(*flows)


def test_where_only_topics_overlap_that_get_there_straight_a_flow_stops_those():
    """So that the plan need not be refused."""
    there = plan(Flow("a", "b"), Flow("a", "c"), Flow("b", "c", topics=("orders.*",)))
    assert there.stop(there.flows[2]).clusters == {"a"}
    without = plan(Flow("a", "b", topics=("customers",)), Flow("a", "c"), Flow("b", "c", topics=("orders.*",)))
    assert not without.stop(without.flows[2]).clusters  # no record comes two ways


def test_names_of_clusters_that_can_be_taken_for_each_other_leave_it_to_headers():
    """`a-b.t` may be `t` of `a-b`, or `b.t` of `a`."""
    dashes = [Flow(s, t, topic="${source}-${topic}") for s, t in (("a", "a-b"), ("a-b", "a"))]
    assert all(plan(*dashes).stop(flow).by_header for flow in dashes)
    dots = [Flow(s, t, topic=PREFIXED) for s, t in (("a", "a-b"), ("a-b", "a"))]
    assert not any(plan(*dots).stop(flow).by_header for flow in dots)


def test_a_name_that_only_begins_with_the_clusters_is_not_taken_for_its_mark():
    flows = [Flow("east", "west", topic="eastern.${topic}"), Flow("west", "east", topic="${source}-${topic}")]
    assert all(plan(*flows).stop(flow).by_header for flow in flows)
    flows[0] = Flow("east", "west", topic="east.${topic}")
    assert not any(plan(*flows).stop(flow).by_header for flow in flows)


def test_a_mesh_of_eight_of_which_one_takes_fewer_topics_is_decided_too():
    eight = "abcdefgh"
    less = {"h": (r"(.*\.)?orders",)}
    there = plan(
        *(Flow(s, t, topic=PREFIXED, topics=less.get(t, (".*",))) for s in eight for t in eight if s != t),
    )
    assert {cluster for cluster, _ in Queries(there).deliveries("a", "orders")} == set("bcdefgh")
    assert {cluster for cluster, _ in Queries(there).deliveries("a", "t")} == set("bcdefg")


def test_a_plan_with_more_ways_than_the_search_goes_through_is_refused(monkeypatch):
    monkeypatch.setattr(circles, "_MOST_WAYS", 10)
    with pytest.raises(OptionError, match="more than 10 routes, too many to prove"):
        plan(*USUAL["mesh, prefixed"])


@pytest.mark.parametrize("topic", [SAME, PREFIXED])
def test_a_mesh_of_eight_is_decided_though_its_ways_are_too_many_to_go_through(topic):
    """A hundred thousand, were nothing stopped."""
    eight = "abcdefgh"
    there = plan(*(Flow(s, t, topic=topic) for s in eight for t in eight if s != t))
    assert wrong_deliveries(there, ["t"]) == []
    assert {cluster for cluster, _ in Queries(there).deliveries("a", "t")} == set("bcdefgh")
