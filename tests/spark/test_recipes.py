"""The blocks of docs/recipes.md run as they are written, and give what the page shows.

A text block shows what the block above it printed, or what a `>>> ` expression or a `$ pykafka` command gives.
Addresses, folders and the names of topics are replaced.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_producer import ordered_producer
from confluent_reader import messages_of
from fake_registry import a_registry
from kept_schemas import framed

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]
ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROMPT = re.compile(r"^(>>>|\$) (.*)\n", re.MULTILINE)
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
BEGINNING, DEBEZIUM, JOIN, STATE, WITHOUT_SPARK = range(5)  # the parts of the page

TOPICS = {
    DEBEZIUM: ["shop.public.customers", "crm.public.customers"],
    JOIN: ["orders", "payments", "settled-orders"],
    STATE: ["purchases", "good-customers"],
    WITHOUT_SPARK: ["sales"],
}

# Debezium registers such schemas for PostgreSQL; its `source` has more fields.
CUSTOMER_KEY = {"type": "record", "name": "Key", "namespace": "crm.public.customers"}
CUSTOMER_KEY |= {"fields": [{"name": "id", "type": "int"}], "connect.name": "crm.public.customers.Key"}
CUSTOMER = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": "string"},
        {"name": "email", "type": ["null", "string"], "default": None},
    ],
    "connect.name": "crm.public.customers.Value",
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "connector", "type": "string"},
        {
            "name": "snapshot",
            "type": [{"type": "string", "connect.version": 1, "connect.default": "false"}, "null"],
            "default": "false",
        },
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "crm.public.customers",
    "fields": [
        {"name": "before", "type": ["null", CUSTOMER], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
    "connect.version": 2,
    "connect.name": "crm.public.customers.Envelope",
}


def customer(number, name, email=None):
    return {"id": number, "name": name, "email": email}


def change(op, row, lsn):
    """The key and the envelope of a change, as Debezium has them for a table whose replica identity is FULL."""
    before, after = (row, None) if op == "d" else (None, row)
    source = {"connector": "postgresql", "snapshot": "true" if op == "r" else "false", "lsn": lsn}
    return {"id": row["id"]}, {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1_795_856_400_000}


def as_json(changes):
    return [(json.dumps(key), json.dumps(value) if value else None) for key, value in changes]


IN_JSON = [
    change("r", customer(1, "ada", "ada@example.net"), 1),
    change("c", customer(2, "bob", "bob@example.org"), 2),
    change("u", customer(1, "ada", "ada@example.org"), 3),
    change("c", customer(3, "cyd"), 4),
    change("d", customer(2, "bob", "bob@example.org"), 5),
    ({"id": 2}, None),
]
IN_AVRO = [change("c", customer(4, "dan"), 1), change("u", customer(1, "ada", "ada@example.com"), 2), ({"id": 4}, None)]


class Page:
    """Runs parts of the page, with topics and folders of its own; `topics` gives their names by those of the page."""

    def __init__(self, pykafka, kafka_topic, capsys, folder, registry):
        self.spark, self.servers = pykafka.spark, pykafka.bootstrap_servers
        self.folder, self.registry = folder, registry
        self.topics: dict[str, str] = {}
        self.variables = {"__name__": "__main__", "spark": pykafka.spark}
        self._kafka_topic, self._capsys = kafka_topic, capsys
        text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
        self._parts = [BLOCK.findall(part) for part in re.split(r"^## ", text, flags=re.MULTILINE)]
        self.run(BEGINNING)

    def make_topics(self, part):
        for name in TOPICS[part]:
            self.topics[name] = self._kafka_topic(partitions=1, prefix=name)

    def send(self, topic, records):
        producer = ordered_producer(self.servers)
        for key, value in records:
            producer.produce(self.topics[topic], key=key, value=value)
        assert producer.flush(60) == 0

    def blocks(self, part):
        return [text for kind, text in self._parts[part] if kind == "python"]

    def run(self, part):
        """Run the blocks of the part, and compare what they give with what the page shows."""
        printed = ""
        for kind, text in self._parts[part]:
            if kind == "python":
                printed = self.execute(text)
            elif prompts := PROMPT.split(text)[1:]:
                for sign, typed, shown in zip(prompts[::3], prompts[1::3], prompts[2::3], strict=True):
                    assert self._given(sign, typed) == _lines(shown)
            else:
                assert _lines(printed) == _lines(text)

    def execute(self, block):
        """Run a block until its query has read all records: what it printed."""
        for name, topic in self.topics.items():
            block = block.replace(f'"{name}"', f'"{topic}"')
        self._capsys.readouterr()
        exec(compile(self._placed(block), "docs/recipes.md", "exec"), self.variables)
        printed = self._capsys.readouterr().out
        for query in self.spark.streams.active:
            query.processAllAvailable()
            query.stop()
        return printed

    def checkpoint(self, name):
        return self.folder / "checkpoints" / self.topics[name]

    def _placed(self, text):
        text = text.replace("localhost:9092", self.servers).replace("http://localhost:8081", self.registry.url)
        return re.sub(r'"/(checkpoints|tables)/', rf'"{self.folder}/\1/', text)

    def _given(self, sign, typed):
        if sign == ">>>":
            return _lines(repr(eval(self._placed(typed), self.variables)))
        command, *words = [self.topics.get(word, word) for word in typed.split()]
        assert command == "pykafka"
        words = [sys.executable, "-m", "kafkasource", *words]
        environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": self.servers}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return sorted(_lines(done.stdout))  # tasks write side by side


def _lines(text):
    return [line.rstrip() for line in text.rstrip().splitlines()]


@pytest.fixture
def page(pykafka, kafka_topic, capsys, tmp_path):
    provider = pykafka.spark.conf.get(PROVIDER)
    with a_registry() as registry:
        yield Page(pykafka, kafka_topic, capsys, tmp_path, registry)
    for query in pykafka.spark.streams.active:
        query.stop()
    pykafka.spark.conf.set(PROVIDER, provider)


@pytest.fixture
def customers(page):
    """The page with Debezium's records in its two topics."""
    page.make_topics(DEBEZIUM)
    page.send("shop.public.customers", as_json(IN_JSON))
    topic = page.topics["crm.public.customers"]
    ids = {"key": page.registry.add(f"{topic}-key", json.dumps(CUSTOMER_KEY))}
    ids["value"] = page.registry.add(f"{topic}-value", json.dumps(ENVELOPE))
    page.send(
        "crm.public.customers",
        [
            (framed(ids["key"], CUSTOMER_KEY, key), framed(ids["value"], ENVELOPE, value) if value else None)
            for key, value in IN_AVRO
        ],
    )
    return page


def delta_table(page):
    table = page.variables["DeltaTable"](str(page.folder / "tables/customers"))
    return table.version(), sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])


def forget_the_last_commit(checkpoint):
    """Delete the mark of the last micro-batch, so that Spark runs it again, as after a crash: the mark's file."""
    last = max((path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink()
    return last


def test_debezium_s_changes_are_in_the_delta_table_that_the_page_shows(customers):
    customers.run(DEBEZIUM)


@pytest.mark.parametrize("name", TOPICS[DEBEZIUM])
def test_a_micro_batch_that_is_repeated_does_not_change_the_delta_table(customers, name):
    *definitions, in_json, in_avro = customers.blocks(DEBEZIUM)
    follow = {"shop.public.customers": in_json, "crm.public.customers": in_avro}[name]
    for block in (*definitions, follow):
        customers.execute(block)
    version, rows = delta_table(customers)
    assert version == 1
    assert len(rows) == 2
    commit = forget_the_last_commit(customers.checkpoint(name))
    customers.execute(follow)
    assert commit.exists()  # so it ran again
    assert delta_table(customers) == (version, rows)

    # A change later on is merged, and the deletion of a row that the table has.
    if name == "shop.public.customers":
        later = [change("d", customer(1, "ada"), 6), change("u", customer(3, "cyd", "cyd@example.org"), 7)]
        customers.send(name, as_json(later))
        customers.execute(follow)
        changed = (2, [customer(3, "cyd", "cyd@example.org")])
        assert delta_table(customers) == changed
        commit = forget_the_last_commit(customers.checkpoint(name))
        customers.execute(follow)
        assert commit.exists()
        assert delta_table(customers) == changed
        shutil.rmtree(customers.checkpoint(name))
        customers.execute(follow)
        assert delta_table(customers)[1] == changed[1]


def test_a_second_commit_of_a_micro_batch_at_the_same_time_fails(customers):
    definitions, in_json, _ = customers.blocks(DEBEZIUM)
    customers.execute(definitions)
    delta, upsert = customers.variables["DeltaTable"], customers.variables["upsert"]

    def opened_before_the_first(changes, batch_id):
        table = delta(str(customers.folder / "tables/customers"))
        upsert(changes, batch_id)
        customers.variables["DeltaTable"] = lambda path: table
        try:
            with pytest.raises(Exception, match="Failed to commit transaction"):
                upsert(changes, batch_id)
        finally:
            customers.variables["DeltaTable"] = delta

    customers.variables["upsert"] = opened_before_the_first
    customers.execute(in_json)
    version, rows = delta_table(customers)
    assert version == 1
    assert len(rows) == 2


def test_the_join_finds_paid_orders_and_those_that_nobody_paid_in_time(page):
    page.make_topics(JOIN)

    def at(minute):
        return f"2026-11-28T09:{minute:02}:00Z"

    orders = [(1, "tea", 0), (2, "ink", 1), (3, "pen", 40), (4, "cup", 41)]
    payments = [(1, 5), (2, 17), (3, 42)]  # the second is a minute late
    page.send("orders", [(None, json.dumps({"id": i, "item": item, "at": at(m)})) for i, item, m in orders])
    page.send("payments", [(None, json.dumps({"order_id": i, "paid_at": at(m)})) for i, m in payments])
    page.run(JOIN)


def test_a_customer_is_reported_once_with_the_orders_of_all_micro_batches(page):
    page.make_topics(STATE)

    def buy(*amounts):
        page.send("purchases", [(key, json.dumps({"amount": amount})) for key, amount in amounts])

    buy(("ada", 70), ("bob", 99), ("ada", 50))
    page.run(STATE)
    (block,) = page.blocks(STATE)
    for amounts in [("ada", 30), ("cyd", 60)], [("bob", 1), ("cyd", 39)]:
        buy(*amounts)
        page.execute(block)
    found = messages_of(page.servers, page.topics["good-customers"], settled=True)
    assert [(each.key(), each.value()) for each in found] == [(b"ada", b"120"), (b"bob", b"100")]


def test_polars_and_duckdb_count_the_rows_of_the_reader(page):
    page.make_topics(WITHOUT_SPARK)
    sales = [("tea", 3), ("ink", 5), ("tea", 2)]
    page.send("sales", [(None, json.dumps({"item": item, "amount": amount})) for item, amount in sales])
    page.run(WITHOUT_SPARK)
