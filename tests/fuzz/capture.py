"""Renews `frames.txt`: what real brokers answered in the suite that asks them everything in every version.

    python tests/fuzz/capture.py 3.9.2 4.3.1

A release after the first adds the versions that those before it do not serve. Each line is a release, an API, a version
and the frame without its length in hex; the first one or two different answers to each, none above 4 KiB.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkasource.broker import Broker

HERE = Path(__file__).parent
TESTS = HERE.parent
FRAMES = HERE / "frames.txt"
MOST_BYTES = 4096
MOST_OF_ONE = 2
SUITES = [TESTS / "protocol" / "test_every_version_on_a_broker.py", HERE / "captured_records.py"]


class Recorder:
    """A pytest plugin that listens in the suites where they decode responses."""

    def __init__(self, release: str) -> None:
        self._release = release
        self.lines: list[str] = []
        self._seen: dict[tuple[str, int], set[bytes]] = {}

    def pytest_collection_finish(self, session: Any) -> None:
        for module in {item.module for item in session.items} | {sys.modules["test_every_version_on_a_broker"]}:
            if hasattr(module, "decode_response"):
                module.decode_response = self._listening(module.decode_response)

    def _listening(self, decode_response: Any) -> Any:
        def decode(api: Any, version: int, frame: Any) -> Any:
            raw, body = bytes(frame), decode_response(api, version, frame)
            seen = self._seen.setdefault((api.name, version), set())
            if len(raw) <= MOST_BYTES and len(seen) < MOST_OF_ONE and raw[4:] not in seen:  # correlation ids differ
                seen.add(raw[4:])
                self.lines.append(f"{self._release} {api.name} {version} {raw.hex()}")
            return body

        return decode


def capture(release: str) -> None:
    """In a process of its own: prints the lines."""
    recorder = Recorder(release)
    with Broker(version=release) as broker:
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = broker.bootstrap_servers  # which the fixtures take
        # What fails, in a suite that is made for the newest release, leaves the frames before it.
        pytest.main(["-q", "--tb=line", "-p", "kafkasource.testing", *map(str, SUITES)], plugins=[recorder])
    Path(sys.argv[3]).write_text("".join(f"{line}\n" for line in recorder.lines))


def main(releases: list[str]) -> None:
    known: set[tuple[str, str]] = set()
    lines: list[str] = []
    for release in releases:
        part = FRAMES.with_suffix(f".{release}")
        subprocess.run([sys.executable, __file__, "--one", release, str(part)], check=True)
        new = [line for line in part.read_text().splitlines() if tuple(line.split()[1:3]) not in known]
        known |= {(name, version) for _, name, version, _ in map(str.split, new)}
        lines += new
        part.unlink()
    FRAMES.write_text("".join(f"{line}\n" for line in lines))
    print(f"{len(lines)} frames of {len(known)} APIs and versions in {FRAMES}")


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        capture(sys.argv[2])
    else:
        main(sys.argv[1:])
