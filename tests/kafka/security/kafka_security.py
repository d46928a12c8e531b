"""Asks KafkaSecurity.java: Kafka's own classes, which are the oracle for what we read and send."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from java_programs import NEWEST, ask_java, jars

from kafkasource.testing.broker.jvm.home import find_java

PROGRAM = Path(__file__).with_name("KafkaSecurity.java")


def word(data: str | bytes) -> str:
    return "=" + base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def data_of(text: str) -> bytes:
    assert text[0] == "=", text
    return base64.b64decode(text[1:])


def text_of(text: str) -> str:
    return data_of(text).decode()


def pairs_of(words: list[str]) -> dict[str, str]:
    """Pair the words that follow `ok` in an answer."""
    texts = [text_of(word) for word in words]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def ask(commands: list[list[str | bytes]], release: str = NEWEST) -> list[str]:
    """One answer for each command: its name and its texts."""
    return ask_java(PROGRAM, [[name, *map(word, texts)] for name, *texts in commands], release)


class Server:
    """A SaslServer of Kafka's in a JVM, which is asked as the exchange goes on."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, name: str, *texts: str | bytes) -> list[str]:
        self._process.stdin.write(" ".join([name, *map(word, texts)]) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().split()

    def run(self, mechanism) -> str:
        """Run the exchange. Returns the server's authorization id, or `!` and the exception that it raised."""
        token = mechanism.first()
        while token is not None:
            state, *words = self.ask("respond", token)
            if state.startswith("!"):
                return state
            token = mechanism.respond(data_of(words[-1]))
        mechanism.finish()
        assert state == "done"
        return text_of(words[0])


@contextmanager
def a_server() -> Iterator[Server]:
    command = [
        find_java(),
        "-Xmx256m",
        "-cp",
        jars(NEWEST) / "*",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        PROGRAM,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            yield Server(process)
        finally:
            process.stdin.close()
