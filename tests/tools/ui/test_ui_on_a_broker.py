"""The page's server on a real Kafka: topics as Kafka has them, records as another client wrote them, bounds."""

import base64
import time

import pytest
from ui_process import serving

pytestmark = pytest.mark.broker

BEGAN_MS = 1_700_000_000_000
HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e"quoted" & <b>'


def shown(answer):
    status, document = answer
    assert status == 200, document
    return document


def part(data):
    return {"size": len(data), "base64": base64.b64encode(data).decode()}


def offsets(page):
    return [(record["partition"], record["offset"]) for record in page["records"]]


def places(cursor):
    return ",".join(f"{partition}:{offset}" for partition, offset in cursor.items())


@pytest.fixture
def topic(kafka_topic, produce):
    """Two partitions with ten records each; in time, those of partition 1 come right behind those of 0."""
    name = kafka_topic(partitions=2)
    produce(
        name,
        [
            {
                "value": f"v{partition}-{number}".encode(),
                "key": f"k{number % 5}".encode(),
                "partition": partition,
                "timestamp": BEGAN_MS + 10 * number + partition,
            }
            for number in range(10)
            for partition in (0, 1)
        ],
    )
    return name


def size_on_disk(broker, topic):
    """The size that kafka-python gets from the broker."""
    import kafka

    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        (answer,) = admin.describe_log_dirs([topic])
        return sum(
            row["partition_size"]
            for folder in answer["log_dirs"]
            for log in folder["topics"]
            for row in log["partitions"]
        )
    finally:
        admin.close()


def test_topics_are_as_kafka_has_them(served, topic, kafka_broker):
    (row,) = [row for row in shown(served.get("/api/topics"))["topics"] if row["topic"] == topic]
    in_bytes = size_on_disk(kafka_broker, topic)
    assert in_bytes > 0
    assert row == {
        **{"topic": topic, "internal": False, "partitions": 2, "replication": 1, "offsets": 20, "health": "ok"},
        **{"bytes": in_bytes},
    }
    document = shown(served.get("/api/topic", name=topic))
    assert [(log["partition"], log["earliest"], log["latest"]) for log in document["logs"]] == [(0, 0, 10), (1, 0, 10)]
    assert {setting["name"]: setting["value"] for setting in document["settings"]}["cleanup.policy"] == "delete"
    status, text = served.get("/api/topic", name="no-such-topic")
    assert (status, "no topic 'no-such-topic'" in text) == (502, True)


def test_the_newest_records_come_first_and_older_ones_follow_without_a_gap(served, topic):
    newest = shown(served.get("/api/records", topic=topic, count=3))
    assert offsets(newest) == [(1, 9), (0, 9), (1, 8)]
    seen = offsets(newest)
    page = newest
    while not page["oldest"]:
        page = shown(served.get("/api/records", topic=topic, count=3, older=places(page["older"])))
        seen += offsets(page)
    assert seen == [(partition, offset) for offset in reversed(range(10)) for partition in (1, 0)]


def test_records_from_a_place_on_come_in_the_order_of_time_and_newer_ones_follow_without_a_gap(served, topic):
    page = shown(served.get("/api/records", topic=topic, count=3, **{"from": "earliest"}))
    seen = offsets(page)
    assert seen == [(0, 0), (1, 0), (0, 1)]
    while page["records"]:
        page = shown(served.get("/api/records", topic=topic, count=3, newer=places(page["newer"])))
        seen += offsets(page)
    assert seen == [(partition, offset) for offset in range(10) for partition in (0, 1)]
    since = shown(served.get("/api/records", topic=topic, **{"from": f"@{BEGAN_MS + 81}"}))
    assert offsets(since) == [(1, 8), (0, 9), (1, 9)]
    by_offset = shown(served.get("/api/records", topic=topic, partitions="1", count=2, **{"from": "4"}))
    assert offsets(by_offset) == [(1, 4), (1, 5)]


def test_new_records_are_newer_than_the_newest_page_of_an_empty_topic(served, kafka_topic, produce):
    name = kafka_topic(partitions=2)
    page = shown(served.get("/api/records", topic=name))
    assert page["records"] == []
    produce(name, [{"value": b"late", "partition": 1}])
    assert offsets(shown(served.get("/api/records", topic=name, newer=places(page["newer"])))) == [(1, 0)]


def test_of_committed_records_those_of_a_transaction_that_was_open_are_newer(
    kafka_broker, token_file, kafka_topic, produce
):
    from confluent_kafka import Producer

    name = kafka_topic()
    produce(name, [{"value": b"before", "partition": 0}])
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(name, b"in it", partition=0)
    assert producer.flush(60) == 0
    with serving(kafka_broker.bootstrap_servers, token_file, "-X", "isolation.level=read_committed") as served:
        page = shown(served.get("/api/records", topic=name, **{"from": "latest"}))
        assert page["records"] == []
        producer.commit_transaction(60)
        deadline_s = time.monotonic() + 60
        while not (newer := shown(served.get("/api/records", topic=name, newer=places(page["newer"]))))["records"]:
            assert time.monotonic() < deadline_s  # the broker answers before its markers are written
    assert offsets(newer) == [(0, 1)]


def test_a_key_finds_its_records_whole_or_as_a_part(served, topic):
    whole = shown(served.get("/api/records", topic=topic, key="k3"))
    assert offsets(whole) == [(1, 8), (0, 8), (1, 3), (0, 3)]
    assert whole["examined"] == 20
    assert offsets(shown(served.get("/api/records", topic=topic, key="3", match="part"))) == offsets(whole)
    assert shown(served.get("/api/records", topic=topic, key="3"))["records"] == []
    first = shown(served.get("/api/records", topic=topic, key="k3", count=1, **{"from": "earliest"}))
    assert offsets(first) == [(0, 3)]
    second = shown(served.get("/api/records", topic=topic, key="k3", count=1, newer=places(first["newer"])))
    assert offsets(second) == [(1, 3)]


def test_a_record_has_key_value_and_headers_as_bytes(served, kafka_topic, produce):
    name = kafka_topic()
    headers = [("trace", b"\xff\x00"), ("none", None), ("trace", "é".encode())]
    produce(name, [{"value": b"\x00\xffbytes", "key": None, "headers": headers, "timestamp": BEGAN_MS}])
    (record,) = shown(served.get("/api/records", topic=name))["records"]
    assert record["timestamp"] == BEGAN_MS
    assert record["key"] is None
    assert record["value"] == part(b"\x00\xffbytes")
    assert [(header["key"], header["value"]) for header in record["headers"]] == [
        ("trace", part(b"\xff\x00")),
        ("none", None),
        ("trace", part("é".encode())),
    ]


def test_a_large_value_comes_cut_in_a_list_and_whole_alone(served, kafka_topic, produce):
    name = kafka_topic()
    produce(name, [{"value": b"x" * 100_000}] * 3)
    listed = shown(served.get("/api/records", topic=name))["records"]
    assert [(record["value"]["size"], len(base64.b64decode(record["value"]["base64"]))) for record in listed] == [
        (100_000, 4096)
    ] * 3
    (alone,) = shown(served.get("/api/records", topic=name, count=1, partitions="0", **{"from": "1"}))["records"]
    assert (alone["offset"], alone["value"]) == (1, part(b"x" * 100_000))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"count": "501"}, "count"),
        ({"count": "0"}, "count"),
        ({"count": "9" * 5000}, "count"),
        ({"partitions": "x"}, "partitions"),
        ({"from": "yesterday"}, "from"),
        ({"older": "0"}, "older"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_what_to_change(served, topic, asked, words):
    status, text = served.get("/api/records", topic=topic, **asked)
    assert (status, text.startswith(words)) == (400, True)
    assert len(text) < 300


def test_browsing_joins_no_group_and_commits_nothing(served, topic, kafka_broker):
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    before = {listed.group_id for listed in admin.list_consumer_groups().result().valid}
    shown(served.get("/api/records", topic=topic))
    assert {listed.group_id for listed in admin.list_consumer_groups().result().valid} == before


def test_what_producers_wrote_is_shown_and_never_run(served, browser, kafka_topic, produce):
    name = kafka_topic()
    produce(name, [{"value": HOSTILE.encode(), "key": HOSTILE.encode(), "headers": [(HOSTILE, HOSTILE.encode())]}])
    browser.errors.clear()
    browser.run("window.alerted = false")
    browser.open(served.page(view="topic", name=name))
    browser.click(".record summary")
    browser.wait("document.querySelectorAll('.record pre').length === 3")
    seen = HOSTILE.replace("\u202e", "⟨202E⟩")
    assert browser.run("[...document.querySelectorAll('.record pre')].map(e => e.textContent)") == [seen] * 3
    assert browser.run("document.querySelectorAll('#view script, #view img').length") == 0
    assert browser.errors == []


def test_values_are_shown_as_json_text_or_hex(served, browser, kafka_topic, produce):
    name = kafka_topic()
    produce(
        name,
        [{"key": (7).to_bytes(8, "big"), "value": b'{"id":12345678901234567890,"name":"\\u00e9","list":[1.50,{}]}'}],
    )
    texts, keys = {}, {}
    for form in ("auto", "text", "hex"):
        browser.open(served.page(view="topic", name=name, form=form))
        browser.click(".record summary")
        browser.wait("document.querySelectorAll('.record pre').length === 2")
        keys[form] = browser.run("document.querySelector('.record pre').textContent")
        texts[form] = browser.run("[...document.querySelectorAll('.record pre')][1].textContent")
    assert keys["auto"] == keys["hex"] == "00000000  00 00 00 00 00 00 00 07" + 26 * " " + "........"
    assert keys["text"] == "⟨0000⟩" * 7 + "⟨0007⟩"
    # The number has more digits than JavaScript's numbers, and is not rounded.
    assert texts["auto"].splitlines() == [
        "{",
        '  "id": 12345678901234567890,',
        '  "name": "\\u00e9",',
        '  "list": [',
        "    1.50,",
        "    {}",
        "  ]",
        "}",
    ]
    assert texts["text"] == '{"id":12345678901234567890,"name":"\\u00e9","list":[1.50,{}]}'
    first = texts["hex"].splitlines()[0]
    assert first == '00000000  7b 22 69 64 22 3a 31 32 33 34 35 36 37 38 39 30  {"id":1234567890'


def test_the_form_finds_records_by_key_and_pages_back(served, browser, topic):
    browser.open(served.page(view="topic", name=topic, count=20))
    browser.type("input[name=key]", "k3")
    browser.click("#view .fields button.main")
    browser.wait("document.querySelectorAll('.record').length === 4")
    places_shown = browser.run("[...document.querySelectorAll('.record')].map(e => e.dataset.place)")
    assert places_shown == ["1:8", "0:8", "1:3", "0:3"]
    assert "s3cret" not in browser.run("location.href + document.documentElement.outerHTML")
