"""Open transactions are asked of the brokers, not too often, and never at the price of other metrics."""

from kafkasource.errors import KafkaSourceError
from kafkasource.tools.monitor.open_sinks import ASK_EVERY_S, OpenSinks


class Transaction:
    def __init__(self, age_ms):
        self.age_ms = age_ms

    def open_for_ms(self):
        return self.age_ms


def test_how_many_are_open_and_the_oldest():
    sinks = OpenSinks({"orders": {}, "idle": {}}, lambda _: {None: []})
    assert sinks.snapshot().gauges["kafkasource_open_transactions", ("idle", "")] == 0
    sinks = OpenSinks({"orders": {}}, lambda _: {None: [Transaction(2500.0), Transaction(None)]})
    assert sinks.snapshot().gauges == {
        ("kafkasource_open_transactions", ("orders", "")): 2,
        ("kafkasource_oldest_transaction_seconds", ("orders", "")): 2.5,
    }


def test_brokers_are_asked_now_and_then_however_often_somebody_looks():
    now, asked = [0.0], []

    def ask(options):
        asked.append(now[0])
        return {None: []}

    sinks = OpenSinks({"orders": {}}, ask, lambda: now[0])
    for second in range(31):
        now[0] = float(second)
        sinks.snapshot()
    assert asked == [0.0, ASK_EVERY_S, 2 * ASK_EVERY_S]


def test_a_sink_whose_brokers_are_away_has_no_value_and_the_others_have():
    def ask(options):
        if options:
            raise KafkaSourceError("away")
        return {None: [Transaction(1.0)]}

    gauges = OpenSinks({"away": {"x": "y"}, "here": {}}, ask).snapshot().gauges
    assert {labels for _, labels in gauges} == {("here", "")}


def test_a_cluster_that_is_away_hides_no_other_and_is_told_of_once(caplog):
    answers = {"east": [Transaction(1000.0)], "west": KafkaSourceError("gone"), "south": []}
    now = [0.0]
    sinks = OpenSinks({"both": {}}, lambda _: answers, lambda: now[0])
    for _ in range(3):
        now[0] += ASK_EVERY_S
        assert sinks.snapshot().gauges == {
            ("kafkasource_open_transactions", ("both", "east")): 1,
            ("kafkasource_oldest_transaction_seconds", ("both", "east")): 1.0,
            ("kafkasource_open_transactions", ("both", "south")): 0,
            ("kafkasource_oldest_transaction_seconds", ("both", "south")): 0.0,
        }
    assert [record.getMessage() for record in caplog.records] == [
        "cannot list the open transactions of sink 'both' in cluster 'west': gone"
    ]
