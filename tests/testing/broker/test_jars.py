"""The cache of jars: complete or absent, filled once, healed by itself. Marked tests ask the real Ivy."""

import importlib.util
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
from child_environment import with_package

from kafkasource.errors import OptionError
from kafkasource.testing.broker.jvm import jars as module
from kafkasource.testing.broker.jvm.jars import (
    Coordinate,
    JarsNotResolved,
    find_ivy,
    locked,
    resolve_jars,
)
from lab.jvm_connector import jvm_connector_jars

KAFKA = "org.example:kafka:1.0"


def write_jar(path):
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")


class FakeIvy:
    """Writes the asked jar; spoiled, it writes half of one for as long as it keeps the same home."""

    def __init__(self):
        self.runs, self.spoiled_home, self.offline = [], None, False

    def __call__(self, java, ivy, ivy_home, wanted, dest):
        self.runs.append((ivy_home, wanted))
        if self.offline:
            return "\t\tmodule not found: org.example#kafka;1.0\n"
        ivy_home.mkdir(exist_ok=True)
        write_jar(dest / wanted.jar)
        if ivy_home == self.spoiled_home and not (ivy_home / "good").exists():
            whole = (dest / wanted.jar).read_bytes()
            (dest / wanted.jar).write_bytes(whole[: len(whole) // 2])
        return ""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path / "cache"))
    return module.cache_dir()


@pytest.fixture
def ivy(monkeypatch, cache):
    fake = FakeIvy()
    monkeypatch.setattr(module, "_run_ivy", fake)
    monkeypatch.setattr(module, "find_java", lambda: Path("/java"))
    monkeypatch.setattr(module, "find_ivy", lambda: Path("/ivy.jar"))
    return fake


def test_the_cache_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path / "own"))
    assert module.cache_dir() == tmp_path / "own"
    monkeypatch.delenv("KAFKASOURCE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert module.cache_dir() == tmp_path / "xdg" / "kafkasource"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert module.cache_dir() == tmp_path / "home" / ".cache" / "kafkasource"


def test_a_set_is_downloaded_once_and_then_believed(ivy, cache, capsys):
    first = resolve_jars(KAFKA, "org.example:other:2.0!", dest=cache / "set")
    assert [jar.name for jar in first] == ["kafka-1.0.jar", "other-2.0.jar"]
    assert [wanted.transitive for _, wanted in ivy.runs] == [True, False]
    assert "downloading org.example:kafka:1.0" in capsys.readouterr().err
    assert resolve_jars(KAFKA, "org.example:other:2.0!", dest=cache / "set") == first
    assert len(ivy.runs) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("damage", [lambda jar: jar.unlink(), lambda jar: jar.write_bytes(jar.read_bytes()[:30])])
def test_a_damaged_set_is_downloaded_again(ivy, cache, damage):
    (jar,) = resolve_jars(KAFKA, dest=cache / "set")
    damage(jar)
    assert resolve_jars(KAFKA, dest=cache / "set") == [jar]
    assert zipfile.is_zipfile(jar)


def test_what_a_broken_attempt_left_in_ivys_cache_does_not_stop_the_next(ivy, cache):
    ivy.spoiled_home = cache / "ivy"
    (jar,) = resolve_jars(KAFKA, dest=cache / "set")
    assert zipfile.is_zipfile(jar)
    assert [home == cache / "ivy" for home, _ in ivy.runs] == [True, False]


def test_what_a_killed_process_left_is_swept(ivy, cache):
    (cache / "set.k3l9").mkdir()
    (cache / "set.k3l9" / "half.jar").write_bytes(b"PK")
    resolve_jars(KAFKA, dest=cache / "set")
    assert sorted(path.name for path in cache.iterdir()) == ["ivy", "lock", "set"]


def test_a_failed_download_says_what_ivy_said_and_leaves_nothing(ivy, cache):
    ivy.offline = True
    with pytest.raises(JarsNotResolved, match=r"module not found: org\.example#kafka;1\.0") as caught:
        resolve_jars(KAFKA, dest=cache / "set")
    assert "check the network" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in cache.iterdir()] == ["lock"]


def test_concurrent_starts_download_once(ivy, cache):
    results = []
    threads = [threading.Thread(target=lambda: results.append(resolve_jars(KAFKA, dest=cache / "s"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[cache / "s" / "kafka-1.0.jar"]] * 8
    assert len(ivy.runs) == 1


def test_the_lock_of_a_killed_process_is_free(cache):
    code = f"""
import os, signal, pathlib
from kafkasource.testing.broker.jvm.jars import locked
with locked(pathlib.Path({str(cache / "lock")!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], env=with_package()).returncode == -9
    with locked(cache / "lock"):
        pass


def test_a_coordinate_must_be_one():
    assert str(Coordinate.parse("a.b:c-d_2.13:1.0!")) == "a.b:c-d_2.13:1.0"
    assert Coordinate.parse("a.b:c:1.0:test!").jar == "c-1.0-test.jar"
    for text in ("a:b", "a:b:c:d:e", "a:../b:1", "a:b:"):
        with pytest.raises(OptionError, match="group:artifact:version"):
            Coordinate.parse(text)


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("0.9.0.1", ["kafka_2.11:0.9.0.1"]),
        ("1.0.2", ["kafka_2.11:1.0.2", "jaxb-api:2.3.1!"]),
        ("1.1.1", ["kafka_2.11:1.1.1", "slf4j-simple:1.7.36!"]),
        ("2.4.1", ["kafka_2.13:2.4.1", "slf4j-simple:1.7.36!"]),
        ("4.4.0", ["kafka_2.13:4.4.0", "slf4j-simple:1.7.36!"]),
    ],
)
def test_each_release_comes_in_a_scala_that_it_was_built_for_with_what_java_and_its_log_need(
    version, wanted, cache, monkeypatch
):
    asked = []
    monkeypatch.setattr(module, "resolve_jars", lambda *coordinates, dest: asked.extend(coordinates))
    assert module.kafka_jars(version) == cache / f"kafka-{version}"
    names = [f"{one.artifact}:{one.version}{'' if one.transitive else '!'}" for one in map(parsed, asked)]
    assert names == wanted


def parsed(coordinate):
    return coordinate if isinstance(coordinate, Coordinate) else Coordinate.parse(coordinate)


def test_ivy_is_found_by_pattern_and_without_importing_pyspark(tmp_path, monkeypatch):
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "pyspark" / "jars" / "ivy-9.9.9.jar").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert find_ivy() == tmp_path / "pyspark" / "jars" / "ivy-9.9.9.jar"


def test_without_pyspark_the_remedy_is_told(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JarsNotResolved, match=r"pip install 'pyspark>=4\.2'"):
        find_ivy()


@pytest.mark.broker
@pytest.mark.extended
def test_processes_that_start_together_all_get_the_jars_from_the_real_ivy(tmp_path):
    code = """
from kafkasource.testing.broker import cache_dir, resolve_jars
print([jar.name for jar in resolve_jars("org.apache.commons:commons-pool2:2.12.1!", dest=cache_dir() / "pool")])
"""
    environment = with_package(KAFKASOURCE_CACHE=str(tmp_path))
    starts = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    ends = [start.communicate() for start in starts]
    assert [out.decode().strip() for out, _ in ends] == ["['commons-pool2-2.12.1.jar']"] * 3
    assert b"".join(err for _, err in ends).count(b"downloading") == 1


@pytest.mark.broker
def test_the_jvm_connector_resolves_to_what_the_peers_need():
    assert [jar.name for jar in jvm_connector_jars()] == [
        "commons-pool2-2.12.1.jar",
        "kafka-clients-3.9.2.jar",
        "spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    ]
