"""Which partitions a query names. Expected texts are the key phrases of the JVM connector's errors."""

import pytest
from fake_cluster import FakeCluster

from kafkasource.errors import OptionError
from kafkasource.options import java_regex
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.subscription import Assign, SubscribePattern, SubscribeTopics, parse_subscription
from kafkasource.types import IsolationLevel
from kafkasource.types import TopicPartition as TP


def parse(**given):
    return parse_subscription({"subscribe": None, "subscribePattern": None, "assign": None} | given)


def test_topics_are_trimmed_and_empty_ones_dropped():
    assert parse(subscribe=" a, b,,a ") == SubscribeTopics(("a", "b"))


def test_partitions_are_assigned():
    assert parse(assign='{"b":[1,0],"a":[0]}') == Assign((TP("a", 0), TP("b", 0), TP("b", 1)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source: subscribe, subscribePattern, assign"),
        ({"subscribe": "t", "assign": '{"t":[0]}'}, "Only one of the following options can be specified"),
        ({"subscribe": " ,"}, "No topics to subscribe to"),
        ({"subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({"subscribePattern": "a("}, "'subscribePattern'.*not a usable regular expression"),
        ({"assign": "t-0"}, "No topicpartitions to assign"),
        ({"assign": "{}"}, "No topicpartitions to assign"),
        ({"assign": '{"t":0}'}, r'Expected e.g. {"topicA":\[0,1\],"topicB":\[0,1\]}, got {"t":0}'),
        ({"assign": '{"t":["0"]}'}, "Expected e.g."),
        ({"assign": '{"t":[-1]}'}, "Expected e.g."),
        ({"assign": '{"t" [0]}'}, "It is not JSON at character 6: Expecting ':' delimiter"),
        ({"assign": '{\n "t": [0\n}'}, "It is not JSON at line 3, column 1: Expecting ',' delimiter"),
    ],
)
def test_a_strategy_that_cannot_be_meant_is_refused(given, message):
    with pytest.raises(OptionError, match=message):
        parse(**given)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("log", ["log", "my-log-1"], ["lag"]),  # searched, not matched in full
        ("^log$", ["log"], ["logs", "blog"]),
        ("topic-.*", ["topic-a", "my.topic-"], ["topic"]),
        (r"^\p{Alpha}+\d{2}$", ["ab12"], ["1a12", "ab1"]),
        (r"^[\p{Lower}_]+$", ["a_b"], ["A_b"]),
        (r"^\Qa.b\E$", ["a.b"], ["aXb"]),
        (r"^(?<w>ab)-\k<w>$", ["ab-ab"], ["ab-cd"]),
        (r"(?i)^LOG\z", ["log", "Log"], ["logs"]),
        (r"^[^-]+$", ["ab"], ["a-b"]),
        (r"(?<!x)y", ["y", "ay"], ["xy"]),
        # Of java.util.regex.Pattern: \0n, \0nn, \0mnn, where m is at most 3.
        (r"^\0141$", ["a"], ["1", "b"]),
        (r"^\0611$", ["11"], ["a", "1"]),
        (r"^\0501$", ["(1"], ["A", "P1"]),
        (r"^[\0141-\0143]\056$", ["a.", "c."], ["1.", "d.", "ax"]),
        (r"^(a)\1$", ["aa"], ["a", "a1"]),
    ],
)
def test_patterns_mean_what_java_means_by_them(pattern, matching, others):
    subscription = parse(subscribePattern=pattern)
    assert isinstance(subscription, SubscribePattern)
    assert [t for t in matching + others if subscription.matches(t)] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        *("[a-z&&[^b]]", "[a[bc]]", r"\p{IsGreek}", "a(?i)b", r"\R", "(?P<n>a)", "[]a]"),
        *(r"\08", r"a\0", r"\101", r"(a)\101", r"[\1]"),  # Java refuses the first two and the last: no octal, no group
    ],
)
def test_what_python_would_understand_otherwise_is_refused(pattern):
    with pytest.raises(OptionError, match="not a usable regular expression"):
        parse(subscribePattern=pattern)


def test_a_pattern_is_spelt_anew_once_however_many_topics_it_is_asked_about(monkeypatch):
    spelt = []
    respell = java_regex._respell
    monkeypatch.setattr(java_regex, "_respell", lambda *of: spelt.append(of) or respell(*of))
    subscription = parse(subscribePattern=r"^counted-here-\d+$")
    cluster = FakeCluster(**{f"counted-here-{n}": [(0, 1)] for n in range(5000)})
    asked = OffsetReader(cluster, subscription, IsolationLevel.READ_UNCOMMITTED, retry_ms=0)
    for _ in range(2):
        found = asked.assigned()
    assert (len(found), len(spelt)) == (5000, 1)
