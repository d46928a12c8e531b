"""The first cluster that ends leaves an archive of Kafka's classes, and the next ones use it."""

import os
from pathlib import Path

import pytest

from kafkasource.testing.broker import Broker
from kafkasource.testing.broker.jvm.class_archive import ClassArchive
from kafkasource.testing.broker.jvm.home import find_java
from kafkasource.testing.broker.jvm.jars import kafka_jars


@pytest.fixture
def java(tmp_path):
    """A file that stands for a Java."""
    java = tmp_path / "java"
    java.write_text("")
    return java


def test_another_java_has_another_archive(java, tmp_path):
    before = ClassArchive.of(java, tmp_path)
    os.utime(java, ns=(0, 0))  # as an update leaves it
    assert ClassArchive.of(java, tmp_path).file != before.file


def test_it_is_made_once_and_only_where_it_is_wanted(java, tmp_path, monkeypatch):
    archive = ClassArchive.of(java, tmp_path)
    assert archive.wanted()  # tests/conftest.py says so
    monkeypatch.delenv("KAFKASOURCE_CLASS_ARCHIVE")
    assert not archive.wanted()
    monkeypatch.setenv("KAFKASOURCE_CLASS_ARCHIVE", "1")
    archive.file.write_bytes(b"made")
    assert not archive.wanted()


def test_no_jvm_is_pointed_to_an_archive_that_is_not_there(java, tmp_path):
    archive = ClassArchive.of(java, tmp_path)
    assert archive.using() == ()
    archive.take(tmp_path)  # a JVM that was killed has left nothing
    assert archive.using() == ()


@pytest.mark.broker
@pytest.mark.extended
def test_the_first_cluster_leaves_it_and_the_next_maps_it(tmp_path, monkeypatch):
    jars = tmp_path / "kafka-4.3.1"
    jars.mkdir()
    for jar in kafka_jars("4.3.1").glob("*.jar"):
        (jars / jar.name).symlink_to(jar)
    monkeypatch.setattr("kafkasource.testing.broker.cluster.kafka_jars", lambda version: jars)
    archive = ClassArchive.of(find_java(), jars)

    def mapped(broker):
        """The archives that the node's JVM has mapped."""
        group = broker.pids[0]
        maps = [each for each in Path("/proc").glob("[0-9]*/maps") if os.getpgid(int(each.parent.name)) == group]
        return {line.split()[-1] for each in maps for line in each.read_text().splitlines() if line.endswith(".jsa")}

    with Broker(use_existing=False) as broker:
        assert str(archive.file) not in mapped(broker)
    assert archive.file.stat().st_size > 1 << 20
    with Broker(use_existing=False) as broker:
        assert str(archive.file) in mapped(broker)
        assert "cds" not in broker.log()
    assert sorted(path.suffix for path in jars.iterdir() if path.suffix != ".jar") == [".jsa"]
