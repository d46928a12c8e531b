"""Changes of the page with --write, which another client sees. Nothing changes without a confirmation."""

import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from ui_process import serving

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def writing(kafka_broker, token_file):
    options = ("-X", "isolation.level=read_committed", "-X", "acks=all")
    with serving(kafka_broker.bootstrap_servers, token_file, "--write", *options) as server:
        yield server


@pytest.fixture
def admin(kafka_broker):
    return AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})


def consumer(kafka_broker, group):
    return Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group})


def committed(kafka_broker, group, topic, partitions=2):
    reader = consumer(kafka_broker, group)
    try:
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        return [position.offset for position in reader.committed(asked, timeout=60)]
    finally:
        reader.close()


def records(kafka_broker, topic, count):
    reader = consumer(kafka_broker, f"reads-{uuid.uuid4()}")
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        return [reader.poll(60) for _ in range(count)]
    finally:
        reader.close()


def test_a_record_is_written_as_it_was_asked_for(writing, kafka_topic, kafka_broker):
    topic = kafka_topic()
    asked = {"key": "k", "value_base64": "AP8=", "headers": {"trace": "é"}, "partition": 0}
    status, done = writing.post("/api/produce", {"topic": topic, "confirm": topic, "record": asked})
    assert (status, done) == (200, {"written": [{"partition": 0, "offset": 0}]})
    (record,) = records(kafka_broker, topic, 1)
    assert (record.key(), record.value(), record.headers()) == (b"k", b"\x00\xff", [("trace", "é".encode())])


def test_a_groups_offsets_are_planned_then_set(writing, kafka_topic, kafka_broker, produce):
    topic, group = kafka_topic(partitions=2), f"g-{uuid.uuid4()}"
    produce(topic, [{"value": b"x", "partition": number % 2} for number in range(10)])
    status, plan = writing.post("/api/offsets/plan", {"group": group, "topic": topic, "to": "3"})
    assert (status, plan["offsets"]) == (
        200,
        [{"partition": 0, "before": None, "after": 3}, {"partition": 1, "before": None, "after": 3}],
    )
    assert committed(kafka_broker, group, topic) == [-1001, -1001]  # a plan changes nothing
    asked = {"group": group, "confirm": group, "topic": topic, "offsets": {"0": 3, "1": 4}}
    assert writing.post("/api/offsets/set", asked) == (200, {"set": 2})
    assert committed(kafka_broker, group, topic) == [3, 4]


def test_a_topic_is_created_and_deleted(writing, admin):
    name = f"ui-{uuid.uuid4()}"
    asked = {"name": name, "confirm": name, "partitions": 3, "settings": {"cleanup.policy": "compact"}}
    assert writing.post("/api/topic/create", asked) == (200, {"created": name})
    assert len(admin.list_topics(timeout=60).topics[name].partitions) == 3
    settings = {setting["name"]: setting["value"] for setting in writing.get("/api/topic", name=name)[1]["settings"]}
    assert settings["cleanup.policy"] == "compact"
    assert writing.post("/api/topic/delete", {"name": name, "confirm": name}) == (200, {"deleted": name})
    assert name not in admin.list_topics(timeout=60).topics


@pytest.mark.parametrize("confirm", [None, "", "another", True])
def test_nothing_changes_without_a_confirmation_of_its_name(writing, kafka_topic, kafka_broker, admin, confirm):
    topic, group = kafka_topic(), f"g-{uuid.uuid4()}"
    for path, asked in (
        ("/api/produce", {"topic": topic, "record": {"value": "x"}}),
        ("/api/offsets/set", {"group": group, "topic": topic, "offsets": {"0": 0}}),
        ("/api/topic/create", {"name": f"{topic}-2"}),
        ("/api/topic/delete", {"name": topic}),
    ):
        status, text = writing.post(path, asked | {"confirm": confirm})
        assert (status, text.startswith("confirm:")) == (400, True)
    topics = admin.list_topics(timeout=60).topics
    assert topic in topics
    assert f"{topic}-2" not in topics
    assert writing.get("/api/topic", name=topic)[1]["offsets"] == 0
    assert committed(kafka_broker, group, topic, 1) == [-1001]


def test_neither_another_origin_nor_a_form_nor_a_missing_token_changes_anything(writing, served, kafka_topic):
    topic = kafka_topic()
    asked = {"name": topic, "confirm": topic}
    for status, how in (
        (401, {"token": None}),
        (401, {"token": "wrong"}),
        (403, {"headers": {"Origin": "http://evil.example"}}),
        (403, {"headers": {"Origin": "null"}}),
        (421, {"headers": {"Host": "evil.example"}}),
        (415, {"kind": "text/plain"}),  # what a page may send to another origin without asking it
        (415, {"kind": "application/x-www-form-urlencoded"}),
    ):
        assert writing.post("/api/topic/delete", asked, **how)[0] == status
    assert served.post("/api/topic/delete", asked)[0] == 405  # without --write
    assert writing.get("/api/topic/delete", **asked)[0] == 404
    assert writing.get("/api/topic", name=topic)[0] == 200


@pytest.mark.parametrize(
    ("path", "asked", "words"),
    [
        ("/api/produce", {"record": {}}, "record: it has no key `value`"),
        ("/api/produce", {"record": {"value": "x", "partition": 9}}, "no partition 9"),
        ("/api/offsets/set", {"offsets": {"0": -1}}, "offsets"),
        ("/api/offsets/set", {"offsets": {"7": 1}}, "no partition 7"),
        ("/api/offsets/plan", {"to": "yesterday"}, "to: 'yesterday'"),
        ("/api/topic/create", {"partitions": "3"}, "partitions"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_with_what_to_change(writing, kafka_topic, path, asked, words):
    topic = kafka_topic()
    names = {"topic": topic, "group": "g", "name": "n"}
    confirm = "g" if "offsets" in path else "n" if "create" in path else topic
    status, text = writing.post(path, {**names, "confirm": confirm, **asked})
    assert (status in (400, 502), words in text) == (True, True), text


def test_the_page_deletes_a_topic_only_when_its_name_was_written(writing, browser, kafka_topic, admin):
    topic = kafka_topic()
    browser.errors.clear()
    browser.open(writing.page(view="topic", name=topic, tab="change"))
    browser.click("button.danger")
    browser.wait("document.querySelector('dialog')?.open")
    assert browser.run("document.querySelector('dialog button').disabled") is True
    browser.type("dialog input", topic[:-1])
    assert browser.run("document.querySelector('dialog button').disabled") is True
    assert topic in admin.list_topics(timeout=60).topics
    browser.type("dialog input", topic)
    browser.click("dialog button")
    browser.wait("location.hash === '#view=topics' && document.body.dataset.loaded === 'yes'")
    assert topic not in admin.list_topics(timeout=60).topics
    assert browser.errors == []


def test_the_page_writes_a_record_after_a_question(writing, browser, kafka_topic, kafka_broker):
    topic = kafka_topic()
    browser.open(writing.page(view="topic", name=topic, tab="change"))
    browser.type("textarea", '{"a": 1}')
    browser.type("input[name=key]", "k")
    browser.click("#view form button.main")
    browser.wait("document.querySelector('dialog')?.open")
    browser.click("dialog button.main")
    browser.wait("document.getElementById('done').textContent.startsWith('written')")
    (record,) = records(kafka_broker, topic, 1)
    assert (record.key(), record.value()) == (b"k", b'{"a": 1}')


def test_without_write_the_page_offers_no_change(served, browser, kafka_topic):
    browser.open(served.page(view="topic", name=kafka_topic()))
    assert browser.run("[...document.querySelectorAll('nav a')].map(e => e.textContent)") == [
        *("Topics", "Groups", "Transactions"),
        *("Records", "Partitions", "Settings"),
    ]
