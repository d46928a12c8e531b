"""Tests `pykafka cache clean`: it removes downloads and leaves everything else."""

import os

import pytest

from kafkasource.testing.broker import detached
from kafkasource.testing.broker.detached import DetachedBroker
from kafkasource.tools.cli import main

DOWNLOADED = (
    *("ivy", "kafka-4.3.1", "kafka-0.10.2.2", "spark-sql-kafka-4.2.0", "apicurio-registry-3.0.9"),
    *("kafka-3.9.2.abc_1234", "kafka-3.9.2.removed"),  # left by a process that died
)
OTHERS = ("kafka-data", "mine", "kafka-4.3.1-copy")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path / "cache"))
    for name in (*DOWNLOADED, *OTHERS):
        (tmp_path / "cache" / name / "inner").mkdir(parents=True)
        (tmp_path / "cache" / name / "inner" / "a.jar").write_bytes(b"x" * 1000)
    (tmp_path / "cache" / "lock").touch()
    return tmp_path / "cache"


def names(folder):
    return {each.name for each in folder.iterdir()}


def test_downloads_are_removed_and_nothing_else_is(cache, capsys):
    assert main(["cache", "clean"]) == 0
    assert names(cache) == {*OTHERS, "lock"}
    out = capsys.readouterr().out
    assert [name for name in DOWNLOADED if name not in out] == []
    assert out.splitlines()[-1] == f"removed 6.8 KiB from {cache}"  # 7,000 bytes
    assert main(["cache", "clean"]) == 0
    assert capsys.readouterr().out == f"nothing is downloaded in {cache}\n"


def test_a_dry_run_says_the_same_and_removes_nothing(cache, capsys):
    before = names(cache)
    assert main(["cache", "clean", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"would remove 6.8 KiB from {cache}"
    assert names(cache) == before


def test_what_a_running_broker_uses_is_not_removed(cache, capsys, monkeypatch):
    state = DetachedBroker("127.0.0.1:1", "4.3.1", (os.getpid(),), str(cache / "data"), keeps_data=False)
    monkeypatch.setattr(detached, "status", lambda: state)
    monkeypatch.setattr(detached, "is_ours", lambda pid, folder: True)
    before = names(cache)
    assert main(["cache", "clean"]) == 1
    assert capsys.readouterr().err == (
        "pykafka: a broker runs from these files: end it first, with `pykafka broker stop`\n"
    )
    assert names(cache) == before


def test_a_clean_that_is_broken_off_leaves_nothing_that_looks_complete(cache, monkeypatch):
    """`_complete` in jars.py looks for the jar that was asked for, not for the jars that this jar needs."""

    def broken(path, **_):
        if os.path.exists(path):
            raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr("shutil.rmtree", broken)
    assert main(["cache", "clean"]) == 1
    left = names(cache) & set(DOWNLOADED)
    assert "apicurio-registry-3.0.9" not in left  # the first one


def test_a_link_is_not_followed(cache, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").touch()
    (cache / "kafka-4.0.0").symlink_to(tmp_path / "elsewhere")
    assert main(["cache", "clean"]) == 0
    assert (tmp_path / "elsewhere" / "a").exists()
