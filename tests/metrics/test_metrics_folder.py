"""Counters outlive the processes that counted: the tests kill real processes at every point."""

import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time

import pytest

from kafkasource import metrics
from kafkasource.metrics import folder
from kafkasource.metrics.counting import ProcessCounts

READ = "kafkasource_records_read_total", ("t",)
WAITERS = "kafkasource_pool_waiters", ("east",)

WORKER = """
import sys
from kafkasource import metrics
metrics.poll(metrics.process_counts(), lambda _: [("kafkasource_pool_waiters", ("east",), 1.0)])
for line in sys.stdin:
    metrics.count("kafkasource_records_read_total", int(line), "t")
    metrics.publish()
    print("counted", flush=True)
"""


@pytest.fixture
def worker(tmp_path):
    """`worker()`: a process that counts the numbers from its input."""
    started = []

    def start():
        environment = {**os.environ, "KAFKASOURCE_METRICS_DIR": str(tmp_path)}
        one = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
        one.communicate()


def tell(worker, records):
    worker.stdin.write(f"{records}\n")
    worker.stdin.flush()
    assert worker.stdout.readline() == "counted\n"


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


def kill(worker):
    worker.send_signal(signal.SIGKILL)
    worker.wait()


def test_counters_survive_restarts_of_workers_whose_files_become_one(tmp_path, worker):
    total = 0
    for records in (5, 70, 900):
        one, other = worker(), worker()
        tell(one, records)
        tell(other, records)
        total += 2 * records
        assert folder.collect(tmp_path).counters[READ] == total
        kill(one)
        assert folder.collect(tmp_path).counters[READ] == total
        tell(other, 1)
        total += 1
        kill(other)
        assert folder.collect(tmp_path).counters[READ] == total
    assert folder.collect(tmp_path).counters[READ] == total
    assert files_in(tmp_path) == ["collect.lock", "folded.json"]


def test_gauges_go_with_their_process(tmp_path, worker):
    one, other = worker(), worker()
    tell(one, 1)
    tell(other, 1)
    assert folder.collect(tmp_path).gauges[WAITERS] == 2
    kill(one)
    assert folder.collect(tmp_path).gauges[WAITERS] == 1
    kill(other)
    assert WAITERS not in folder.collect(tmp_path).gauges


def test_a_collector_that_dies_loses_nothing_and_counts_nothing_twice(tmp_path, worker):
    one = worker()
    tell(one, 11)
    kill(one)
    (tmp_path / "folded.json.1.new").write_text('{"of": [')  # a collector died while it wrote
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert folder.collect(tmp_path).counters[READ] == 11
    for path, content in before.items():  # another died before it deleted files
        path.write_bytes(content)
    assert folder.collect(tmp_path).counters[READ] == 11
    assert folder.collect(tmp_path).counters[READ] == 11


def test_what_a_process_counts_while_it_is_collected_and_then_dies_is_not_lost(tmp_path, worker, monkeypatch):
    one, read = worker(), folder._read
    tell(one, 1)

    def read_and_kill(path):
        found = read(path)
        if one.poll() is None:
            tell(one, 5)
            kill(one)
        return found

    monkeypatch.setattr(folder, "_read", read_and_kill)
    assert folder.collect(tmp_path).counters[READ] == 1
    assert folder.collect(tmp_path).counters[READ] == 6
    assert folder.collect(tmp_path).counters[READ] == 6


@pytest.mark.parametrize("collected", [False, True], ids=["before it is collected", "after it was collected"])
def test_the_counts_of_a_process_go_on_where_its_lock_was_deleted(tmp_path, worker, collected):
    one = worker()
    tell(one, 5)
    (lock,) = tmp_path.glob("*.lock")
    lock.unlink()  # as what cleans /tmp does
    if collected:
        assert folder.collect(tmp_path).counters[READ] == 5
    tell(one, 70)
    assert folder.collect(tmp_path).counters[READ] == 75
    tell(one, 900)
    found = folder.collect(tmp_path)
    assert (found.counters[READ], found.gauges[WAITERS]) == (975, 1)
    kill(one)
    assert folder.collect(tmp_path).counters[READ] == 975
    assert files_in(tmp_path) == ["collect.lock", "folded.json"]


def test_the_counts_of_a_process_go_on_where_the_whole_folder_was_deleted(tmp_path, worker):
    one = worker()
    tell(one, 5)
    for path in tmp_path.iterdir():
        path.unlink()
    assert READ not in folder.collect(tmp_path).counters
    for records, total in ((70, 75), (900, 975)):
        tell(one, records)
        assert folder.collect(tmp_path).counters[READ] == total


def test_the_lock_of_a_process_that_publishes_does_not_grow_old(tmp_path, worker):
    one = worker()
    tell(one, 5)
    (lock,) = tmp_path.glob("*.lock")
    os.utime(lock, (0, 0))
    tell(one, 5)
    assert lock.stat().st_mtime > 0


def test_what_a_process_without_a_lock_counted_long_ago_is_folded_and_still_counts(tmp_path, worker):
    one = worker()
    tell(one, 5)
    kill(one)
    (lock,), (file,) = tmp_path.glob("*.lock"), tmp_path.glob("*.json")
    lock.unlink()
    assert folder.collect(tmp_path).counters[READ] == 5
    old = time.time() - 25 * 3600
    os.utime(file, (old, old))
    assert folder.collect(tmp_path).counters[READ] == 5
    assert files_in(tmp_path) == ["collect.lock", "folded.json"]


def test_on_a_full_disk_all_that_was_counted_is_told_and_what_is_dead_is_folded_later(
    tmp_path, worker, monkeypatch, caplog
):
    one, other, replace = worker(), worker(), folder._replace
    tell(one, 5)
    tell(other, 70)
    kill(one)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder, "_replace", full)
    for _ in range(2):
        found = folder.collect(tmp_path)
        assert (found.counters[READ], found.gauges[WAITERS]) == (75, 1)
    assert caplog.text.count("No space left on device") == 1
    monkeypatch.setattr(folder, "_replace", replace)
    kill(other)
    for _ in range(2):
        assert folder.collect(tmp_path).counters[READ] == 75
    assert files_in(tmp_path) == ["collect.lock", "folded.json"]


def test_a_report_that_comes_twice_counts_once_and_an_overtaken_one_changes_nothing(metrics_folder):
    remote = ProcessCounts(publish=lambda _: None)
    remote.count(READ[0], 3, "t")
    first = pickle.loads(pickle.dumps(remote.snapshot()))  # as a task's report carries it
    remote.count(READ[0], 4, "t")
    second = remote.snapshot()
    metrics.take([first])
    metrics.take([second, None])
    metrics.take([second])
    metrics.take([first])
    assert folder.collect(metrics_folder).counters[READ] == 7


def test_what_other_hosts_reported_long_ago_is_folded_and_still_counts(metrics_folder):
    remote = ProcessCounts(publish=lambda _: None)
    remote.count(READ[0], 3, "t")
    remote.poll(remote, lambda _: [("kafkasource_pool_waiters", ("east",), 1.0)])
    metrics.take([remote.snapshot()])
    path = metrics_folder / f"{remote.process}.report"
    assert folder.collect(metrics_folder).gauges[WAITERS] == 1
    old = time.time() - 25 * 3600
    os.utime(path, (old, old))
    found = folder.collect(metrics_folder)
    assert found.counters[READ] == 3
    assert WAITERS not in found.gauges
    assert not path.exists()
    metrics.take([remote.snapshot()])
    assert folder.collect(metrics_folder).counters[READ] == 3


def test_a_forked_child_counts_for_itself(metrics_folder):
    metrics.count(READ[0], 1, "t")
    metrics.publish()
    before = folder.collect(metrics_folder).counters[READ]
    child = os.fork()
    if not child:
        metrics.count(READ[0], 10, "t")
        metrics.publish()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.collect(metrics_folder).counters[READ] == before + 10


def test_a_folder_that_goes_with_spark_stops_nobody_and_is_not_made_again(tmp_path):
    of_spark = tmp_path / "blockmgr"
    of_spark.mkdir()
    folder.use(of_spark / "metrics")
    try:
        metrics.publish()
        assert (of_spark / "metrics").is_dir()
        shutil.rmtree(of_spark)
        metrics.count(READ[0], 1, "t")
        metrics.publish()
        metrics.take([ProcessCounts().snapshot()])
        with pytest.raises(OSError, match="No such file"):
            folder.collect(of_spark / "metrics")
        assert not of_spark.exists()
    finally:
        folder.use(None)


# Another user of the machine may have been there before: /var/tmp is everybody's.


@pytest.fixture
def publishing(tmp_path):
    """`publishing(folder)`: this process counts and publishes there; what the log says."""

    def publish(path):
        folder.use(path)
        one = ProcessCounts()
        one.count(READ[0], 3, "t")
        one.publish()

    yield publish
    folder.use(None)


def test_the_folder_is_its_owners_alone(tmp_path, publishing):
    old = os.umask(0)
    try:
        publishing(tmp_path / "metrics")
    finally:
        os.umask(old)
    assert (tmp_path / "metrics").stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "metrics").iterdir())


def refused(path, publishing, caplog, text):
    caplog.clear()
    publishing(path)
    assert text in caplog.text
    assert "KAFKASOURCE_METRICS_DIR" in caplog.text
    with pytest.raises(PermissionError, match=text):
        folder.collect(path)


def test_a_link_in_the_folders_place_is_refused(tmp_path, publishing, caplog):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "metrics").symlink_to(tmp_path / "elsewhere")
    refused(tmp_path / "metrics", publishing, caplog, "is a link")
    assert not list((tmp_path / "elsewhere").iterdir())
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    refused(tmp_path / "dangling", publishing, caplog, "is a link")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user's")
def test_another_users_folder_is_refused(tmp_path, publishing, caplog):
    path = tmp_path / "metrics"
    path.mkdir(mode=0o700)
    os.chown(path, 12345, 12345)
    refused(path, publishing, caplog, "belongs to user 12345")
    assert not list(path.iterdir())


def test_a_folder_that_others_may_write_to_is_refused(tmp_path, publishing, caplog):
    path = tmp_path / "metrics"
    path.mkdir()
    path.chmod(0o777)
    refused(path, publishing, caplog, "may be written to by others")
    assert not list(path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_that_is_changed_while_it_is_used_is_refused(tmp_path, publishing, caplog):
    path = tmp_path / "metrics"
    publishing(path)
    before = sorted(one.name for one in path.iterdir())
    one = ProcessCounts()
    one.publish()
    os.chown(path, 12345, 12345)
    one.publish()
    assert "belongs to user 12345" in caplog.text
    assert len(list(path.iterdir())) == len(before) + 2  # what was written while it was ours


def test_links_in_the_folder_are_not_followed(tmp_path, publishing):
    """They can be there only if the folder was another's before; nothing of ours is read or written through them."""
    path, victim = tmp_path / "metrics", tmp_path / "victim"
    path.mkdir(mode=0o700)
    victim.write_text("kept")
    folder.use(path)
    one = ProcessCounts()
    one.count(READ[0], 3, "t")
    for name in (f"{one.process}.json.{os.getpid()}.new", f"{one.process}.json", "other.json"):
        (path / name).symlink_to(victim)
    one.publish()
    assert victim.read_text() == "kept"
    assert not (path / f"{one.process}.json").is_symlink()
    assert folder.collect(path).counters[READ] == 3
    (path / "folded.json").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        folder.collect(path)
    assert victim.read_text() == "kept"
