"""The counts of one process. prometheus-client counts the same histogram."""

import gc
import json
import random
import subprocess
import sys
import threading

import prometheus_client
import pytest
from fake_broker import FakeKafka, serve

from kafkasource.kafka.cluster.cache import close_clusters, shared_cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.metrics import counting, folder
from kafkasource.metrics.background import OwnThread
from kafkasource.metrics.counting import ProcessCounts
from kafkasource.metrics.snapshot import Snapshot, added
from kafkasource.metrics.table import METRICS

LATENCY = "kafkasource_produce_latency_seconds"


def test_threads_lose_no_count():
    counts = ProcessCounts()

    def count():
        for _ in range(20_000):
            counts.count("kafkasource_records_read_total", 2, "t")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts.snapshot().counters == {("kafkasource_records_read_total", ("t",)): 160_000}


def test_buckets_are_those_of_prometheus_client():
    seconds = [random.Random(7).expovariate(3) for _ in range(500)] + list(METRICS[LATENCY].buckets) + [99.0]
    theirs = prometheus_client.Histogram("x", "x", buckets=METRICS[LATENCY].buckets, registry=None)
    ours = ProcessCounts()
    for one in seconds:
        theirs.observe(one)
        ours.observe(LATENCY, one, "east")
    counts, total = ours.snapshot().histograms[LATENCY, ("east",)]
    assert [bucket.get() for bucket in theirs._buckets] == list(counts)
    assert total == pytest.approx(sum(seconds))


@pytest.mark.parametrize(
    ("name", "labels"), [("kafkasource_nothing_total", ()), ("kafkasource_records_read_total", ()), (LATENCY, ("x",))]
)
def test_what_the_table_does_not_have_is_refused(name, labels):
    with pytest.raises((KeyError, ValueError)):
        ProcessCounts().count(name, 1, *labels)


def test_gauges_are_asked_while_their_owner_lives():
    class Pool:
        used = 7

    counts, pool = ProcessCounts(), Pool()
    counts.poll(pool, lambda one: [("kafkasource_queue_bytes", ("east",), one.used)])
    pool.used = 9
    assert counts.snapshot().gauges["kafkasource_queue_bytes", ("east",)] == 9
    del pool
    assert ("kafkasource_queue_bytes", ("east",)) not in counts.snapshot().gauges


def test_parts_of_the_memory_budget_are_gauges():
    from kafkasource.kafka.memory import gauges  # the first call makes the budget of this process

    sizes, found = gauges(), ProcessCounts().snapshot().gauges
    assert found["kafkasource_memory_limit_bytes", ("budget",)] == sizes["budget_bytes"]
    assert found["kafkasource_memory_bytes", ("receive",)] == sizes["receive_bytes"]
    assert found["kafkasource_memory_limit_bytes", ("receive",)] == sizes["receive_limit_bytes"]
    assert found["kafkasource_memory_peak_bytes", ("receive",)] == sizes["receive_peak_bytes"]
    assert {name for name, _ in found} <= METRICS.keys()


def test_a_process_without_a_budget_counts_without_pyarrow():
    program = "import sys; from kafkasource.metrics import process_counts; "
    program += "print(*{name for name, _ in process_counts().snapshot().gauges}); "
    program += "print('pyarrow' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "kafkasource_kept\nFalse\n"


def test_what_a_process_keeps_is_counted():
    def now():
        return {
            labels[0]: value for (name, labels), value in ProcessCounts().snapshot().gauges.items() if "kept" in name
        }

    close_clusters()
    before = now()
    assert (before["clusters"], before["connections"], before["topics"]) == (0, 0, 0)
    kafka = FakeKafka(topics={"t": 1})
    with serve(kafka) as (host, port):
        shared_cluster(ClientConfig.of(f"{host}:{port}")).topics.describe(["t"])
        assert {what: now()[what] for what in ("clusters", "connections", "topics")} == {
            "clusters": 1,
            "connections": 1,
            "topics": 1,
        }
        gc.collect()  # else the new objects make Python free what earlier tests have left
        objects = now()["python_blocks"]
        held = [object() for _ in range(100_000)]
        assert now()["python_blocks"] - objects >= len(held)
        close_clusters()


def test_a_gauge_that_fails_costs_no_other():
    counts, owners = ProcessCounts(), [threading.Event(), threading.Event()]
    counts.poll(owners[0], lambda _: 1 / 0)
    counts.poll(owners[1], lambda _: [("kafkasource_pool_waiters", ("a",), 1)])
    assert counts.snapshot().gauges["kafkasource_pool_waiters", ("a",)] == 1


def test_what_is_counted_is_published_once_a_second_at_most(metrics_folder):
    now, published = [0.0], []
    counts = ProcessCounts(clock=lambda: now[0], publish=published.append, background=AtOnce)
    for tenth in range(35):
        now[0] = tenth / 10
        counts.count("kafkasource_records_read_total", 1, "t")
    assert [one.counters["kafkasource_records_read_total", ("t",)] for one in published] == [11, 21, 31]


class AtOnce(OwnThread):
    """Works in the thread that asks."""

    def ask(self):
        self._work()
        return 0


class SlowDisk:
    """Takes no snapshot until it is well again."""

    def __init__(self):
        self.well, self.reached, self.taken, self.threads = threading.Event(), threading.Event(), [], set()

    def __call__(self, snapshot):
        self.reached.set()
        self.well.wait(60)
        self.threads.add(threading.get_ident())
        self.taken.append(snapshot.counters["kafkasource_records_read_total", ("t",)])


def test_who_counts_does_not_wait_for_a_disk_that_is_slow(metrics_folder):
    """The sender's thread counts: to all brokers nothing was sent while the folder of metrics was slow."""
    now, disk = [0.0], SlowDisk()
    counts = ProcessCounts(clock=lambda: now[0], publish=disk)
    for second in range(10):
        now[0] = 2.0 * second
        counts.count("kafkasource_records_read_total", 1, "t")
    assert disk.reached.wait(60)
    assert disk.taken == []
    disk.well.set()
    counts.publish()
    assert disk.taken[-1] == 10
    assert len(disk.taken) <= 3  # what was asked for meanwhile is one turn
    assert disk.threads.isdisjoint({threading.get_ident()})


def test_the_end_of_a_task_waits_for_a_slow_disk_but_not_for_ever(metrics_folder, monkeypatch, caplog):
    monkeypatch.setattr(counting, "PUBLISH_WAIT_S", 0.01)
    disk = SlowDisk()
    counts = ProcessCounts(publish=disk)
    counts.count("kafkasource_records_read_total", 1, "t")
    counts.publish()
    assert "metrics are not published after 0 s" in caplog.text
    disk.well.set()


def test_the_thread_that_publishes_ends_when_it_is_not_needed_and_comes_back(monkeypatch):
    monkeypatch.setattr("kafkasource.metrics.background._IDLE_S", 0.0)
    done = []
    thread = OwnThread(lambda: done.append(threading.current_thread()))
    for turns in (1, 2, 3):
        assert thread.wait(thread.ask(), 60)
        assert len(done) == turns
        done[-1].join(60)
        assert not done[-1].is_alive()


def test_nothing_is_published_where_nobody_asks(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKASOURCE_METRICS_DIR", raising=False)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    published = []
    counts = ProcessCounts(publish=published.append)
    counts.publish()
    assert not published
    (tmp_path / folder.IN_LOCAL_DIR).mkdir()  # as serve_metrics does
    counts.publish()
    assert len(published) == 1


def test_a_snapshot_is_the_same_after_its_way_as_json():
    counts = ProcessCounts()
    counts.count("kafkasource_records_discarded_total", 3, "east", 'a "topic"', "-1")
    counts.observe(LATENCY, 0.2, "east")
    counts.poll(counts, lambda _: [("kafkasource_query_active", ("q",), 1.0)])
    snapshot = counts.snapshot()
    assert Snapshot.from_json(snapshot.to_json()) == snapshot


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"process": 1}', '{"process":"a","sequence":1,"counters":3}'])
def test_a_file_that_is_no_snapshot_is_told_from_one(text):
    with pytest.raises(ValueError, match="not a snapshot of metrics"):
        Snapshot.from_json(text)


def test_a_metric_that_another_version_counts_by_other_labels_is_left_out_of_its_snapshot():
    read, waiters = "kafkasource_records_read_total", "kafkasource_pool_waiters"
    buckets = [0] * (len(METRICS[LATENCY].buckets) + 1)
    found = Snapshot.from_json(
        json.dumps(
            {
                "process": "p",
                "sequence": 1,
                "counters": [[read, ["t"], 1], [read, ["t", "0"], 1], [read, [], 1]],
                "histograms": [[LATENCY, [*METRICS[LATENCY].labels, "more"], buckets, 0.0]],
                "gauges": [[waiters, ["east"], 1], [waiters, ["east", "0"], 1]],
            }
        )
    )
    assert (found.counters, found.histograms, found.gauges) == ({(read, ("t",)): 1}, {}, {(waiters, ("east",)): 1})


def test_processes_add_up():
    ours, theirs = ProcessCounts(), ProcessCounts()
    for counts, records in ((ours, 5), (theirs, 7)):
        counts.count("kafkasource_records_read_total", records, "t")
        counts.observe(LATENCY, 0.2, "east")
        counts.poll(counts, lambda _: [("kafkasource_pool_waiters", ("east",), 1.0)])
    total = added([ours.snapshot(), theirs.snapshot()])
    assert total.counters["kafkasource_records_read_total", ("t",)] == 12
    assert total.gauges["kafkasource_pool_waiters", ("east",)] == 2
    assert sum(total.histograms[LATENCY, ("east",)][0]) == 2
