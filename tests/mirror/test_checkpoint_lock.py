"""Two mirrors on one checkpoint, without a Spark: the second one is refused, and a killed one leaves nothing behind."""

import signal
import subprocess
import sys

import pytest

from kafkasource.errors import OptionError
from kafkasource.mirror.checkpoint_lock import CheckpointLocks

HOLDER = """
import sys, time
from kafkasource.mirror.checkpoint_lock import CheckpointLocks
locks = CheckpointLocks()
locks.take(sys.argv[1])
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def locks():
    made = [CheckpointLocks(), CheckpointLocks()]
    yield made
    for each in made:
        each.close()


@pytest.mark.parametrize("spelt", ["{}", "file:{}", "file://{}", "{}/"])
def test_a_second_mirror_on_a_checkpoint_is_refused_with_the_next_step(tmp_path, locks, spelt):
    first, second = locks
    first.take(f"{tmp_path}/checkpoint/A")
    location = spelt.format(f"{tmp_path}/checkpoint/A")
    with pytest.raises(OptionError, match="another mirror runs with the checkpoint") as error:
        second.take(location)
    assert location in str(error.value)
    assert "end that mirror" in str(error.value)
    assert "--checkpoint" in str(error.value)


def test_mirrors_of_other_clusters_may_share_the_folder_and_one_that_ended_is_in_nobodys_way(tmp_path, locks):
    first, second = locks
    first.take(f"{tmp_path}/A")
    second.take(f"{tmp_path}/B")
    first.close()
    second.take(f"{tmp_path}/A")


def test_a_mirror_that_was_killed_holds_nothing_any_more(tmp_path, locks):
    location = f"{tmp_path}/A"
    with subprocess.Popen([sys.executable, "-c", HOLDER, location], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(OptionError):
                locks[0].take(location)
        finally:
            holder.send_signal(signal.SIGKILL)
    locks[0].take(location)


@pytest.mark.parametrize(
    ("location", "default"),
    [("hdfs://nn/checkpoints/A", "file"), ("s3a://bucket/A", "file"), ("{tmp_path}/A", "hdfs")],
)
def test_a_checkpoint_elsewhere_has_no_lock_and_makes_no_file_here(tmp_path, monkeypatch, locks, location, default):
    monkeypatch.chdir(tmp_path)
    for each in locks:
        each.take(location.format(tmp_path=tmp_path), default)
    assert list(tmp_path.iterdir()) == []


def test_where_no_lock_can_be_had_the_mirror_runs_and_says_so(tmp_path, locks, caplog):
    (tmp_path / "file").touch()
    locks[0].take(f"{tmp_path}/file/A")
    assert "no other mirror runs with this checkpoint" in caplog.text
