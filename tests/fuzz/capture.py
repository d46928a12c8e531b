"""Renews `frames.txt`: what real brokers answered in the suite that asks them everything in every version.

    python tests/fuzz/capture.py 4.3.1 3.9.2 0.9.0.1 0.8.2.2

The frames of these releases are new ones, those of others stay. A release adds the versions that the ones before it do
not serve; those of before 0.10 add all they have.
Each line is a release, an API, a version and the frame without its length in hex; the first few different answers to
each, none above 4 KiB.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkasource.kafka.protocol.apis import FETCH
from kafkasource.testing.broker import Broker

HERE = Path(__file__).parent
TESTS = HERE.parent
FRAMES = HERE / "frames.txt"
MOST_BYTES = 4096
MOST_OF_ONE, MOST_OF_FETCH = 2, 6
SUITES = [TESTS / "kafka/protocol" / "test_every_version_on_a_broker.py", HERE / "captured_records.py"]
OLD_SUITES = [TESTS / "kafka/protocol" / "test_guide_versions_on_old_brokers.py", HERE / "captured_messages.py"]


class Recorder:
    """A pytest plugin that listens in the suites where they decode responses."""

    def __init__(self, release: str) -> None:
        self._release = release
        self.lines: list[str] = []
        self._seen: dict[tuple[str, int], set[bytes]] = {}

    def pytest_collection_finish(self, session: Any) -> None:
        for module in {item.module for item in session.items} | {sys.modules["test_every_version_on_a_broker"]}:
            if hasattr(module, "decode_response"):
                module.decode_response = self._listening(module.decode_response)  # type: ignore[union-attr]

    def _listening(self, decode_response: Any) -> Any:
        def decode(api: Any, version: int, frame: Any) -> Any:
            raw, body = bytes(frame), decode_response(api, version, frame)
            seen = self._seen.setdefault((api.name, version), set())
            most = MOST_OF_FETCH if api is FETCH else MOST_OF_ONE
            if len(raw) <= MOST_BYTES and len(seen) < most and raw[4:] not in seen:  # correlation ids differ
                seen.add(raw[4:])
                self.lines.append(f"{self._release} {api.name} {version} {raw.hex()}")
            return body

        return decode


def capture(release: str) -> None:
    """In a process of its own: prints the lines."""
    recorder = Recorder(release)
    arguments = ["-q", "--tb=short", "-p", "kafkasource.testing.fixtures"]
    if is_old(release):  # whose suites start their own
        pytest.main([*arguments, "-k", release, *map(str, OLD_SUITES)], plugins=[recorder])
    else:
        with Broker(version=release) as broker:
            os.environ["KAFKA_BOOTSTRAP_SERVERS"] = broker.bootstrap_servers  # which the fixtures take
            # What fails, in a suite that is made for the newest release, leaves the frames before it.
            pytest.main([*arguments, *map(str, SUITES)], plugins=[recorder])
    Path(sys.argv[3]).write_text("".join(f"{line}\n" for line in recorder.lines))


def is_old(release: str) -> bool:
    return release.startswith("0.")


def main(releases: list[str]) -> None:
    lines = [line for line in FRAMES.read_text().splitlines() if line.split()[0] not in releases]
    for release in releases:
        part = FRAMES.with_suffix(f".{release}")
        try:
            subprocess.run([sys.executable, __file__, "--one", release, str(part)], check=True)
            found = part.read_text().splitlines()
        finally:
            part.unlink(missing_ok=True)
        known = {tuple(line.split()[1:3]) for line in lines}
        lines += [line for line in found if is_old(release) or tuple(line.split()[1:3]) not in known]
    FRAMES.write_text("".join(f"{line}\n" for line in lines))
    print(f"{len(lines)} frames in {FRAMES}")


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        capture(sys.argv[2])
    else:
        main(sys.argv[1:])
