"""KAFKA_JVM_PERFORMANCE_OPTS is obeyed as Kafka's own scripts obey it (bin/kafka-run-class.sh): words of a shell."""

import pytest

from kafkasource.testing.broker import Broker
from kafkasource.testing.broker.jvm.command_lines import Jvm, performance_flags
from kafkasource.testing.broker.jvm.home import find_java

FLAG = "-XX:MaxGCPauseMillis=20"  # in Kafka's own default


@pytest.mark.parametrize(
    ("text", "flags"), [("", ()), (f"-server  {FLAG}", ("-server", FLAG)), ("'-Dname=a b'", ("-Dname=a b",))]
)
def test_its_words_are_flags(monkeypatch, text, flags):
    monkeypatch.setenv("KAFKA_JVM_PERFORMANCE_OPTS", text)
    assert performance_flags() == flags


def test_without_it_there_are_none(monkeypatch):
    monkeypatch.delenv("KAFKA_JVM_PERFORMANCE_OPTS", raising=False)
    assert performance_flags() == ()


@pytest.mark.broker
def test_each_node_starts_with_them(kafka_broker: Broker):
    """tests/conftest.py sets them for the whole run."""
    if kafka_broker.existing:
        pytest.skip("needs the broker's files")
    with open(f"/proc/{kafka_broker.pids[0]}/cmdline", "rb") as file:
        assert b"\0-XX:TieredStopAtLevel=1\0" in file.read()


SHOWS = """
public class Shows {
    public static void main(String[] arguments) throws Exception {
        System.out.println(new String(java.nio.file.Files.readAllBytes(java.nio.file.Path.of("/proc/self/cmdline"))));
        for (String each : arguments) System.out.println(each);
    }
}
"""


@pytest.mark.broker
def test_what_a_tool_is_told_is_not_in_the_list_of_processes(tmp_path):
    java = find_java()
    if not java.resolve().with_name("javac").exists():
        pytest.skip("needs a JDK: this Java has no javac")
    program = tmp_path / "Shows.java"
    program.write_text(SHOWS)
    words = ["SCRAM-SHA-512=[password=alice-secret]", 'a "b" \\c', "#é", "", "@d", "*"]
    folder = tmp_path / "of a cluster"
    folder.mkdir()
    done = Jvm(java, tmp_path, folder, 64, ()).run(str(program), *words, timeout_s=60)
    command, *arguments = done.stdout.splitlines()
    assert arguments == words
    assert str(folder) in command
    assert "secret" not in command
    assert list(folder.iterdir()) == []  # java's own files, too
