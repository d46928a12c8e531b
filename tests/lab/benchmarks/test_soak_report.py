"""What a soak reads of a process, and what it says at its end."""

import json
import os
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.benchmarks.soak import report, sampler
from lab.benchmarks.soak.report import Records
from lab.benchmarks.soak.sampler import App, heap, native_memory
from lab.benchmarks.soak.traffic import Counts

GC_LOG = """[0.5s] Using Serial
[1.2s] GC(0) Pause Young (Allocation Failure) 136M->14M(494M) 10.1ms
[120.2s] GC(1) Pause Full (Diagnostic Command) 60M->31M(494M) 70.3ms
[130.0s] GC(2) Pause Young (Allocation Failure) 167M->35M(494M) 4.0ms
"""  # as OpenJDK 17 writes it with -Xlog:gc:file=...:uptime
NATIVE_MEMORY = """18959:

Native Memory Tracking:

Total: reserved=2817154KB, committed=808462KB
       malloc: 70310KB #716949
       mmap:   reserved=2746844KB, committed=738152KB

-                 Java Heap (reserved=1048576KB, committed=524416KB)
                            (mmap: reserved=1048576KB, committed=524416KB)

-                     Class (reserved=1050905KB, committed=19225KB)
                            (classes #19229)
                            (  Metadata:   )
                            (    reserved=131072KB, committed=117568KB)
"""  # as jcmd of OpenJDK 17 prints it
MIB = 1 << 20


def test_the_heap_is_that_after_the_last_collection_and_what_is_alive_that_after_the_last_full_one(tmp_path):
    log = tmp_path / "gc.log"
    log.write_text(GC_LOG)
    assert heap(log) == {"heap_bytes": 35 * MIB, "live_heap_bytes": 31 * MIB}
    assert heap(tmp_path / "none") == {}


def test_a_jvms_own_account_of_its_memory_is_read_by_parts():
    assert native_memory(NATIVE_MEMORY) == {
        "native_total_bytes": 808_462 * 1024,
        "native_java_heap_bytes": 524_416 * 1024,
        "native_class_bytes": 19_225 * 1024,
    }
    assert native_memory("18959:\nNative memory tracking is not enabled\n") == {}


def own_sample() -> dict[str, float]:
    found = sampler.sample_of(os.getpid(), App("x", 0))
    return {name: value for name, value in found.items() if isinstance(value, int)}


def test_a_sample_is_what_the_system_says_of_a_process(monkeypatch):
    monkeypatch.setattr(sampler, "kind", lambda pid: "driver")
    read, write = os.pipe()
    ending = threading.Event()
    thread = threading.Thread(target=ending.wait)
    before = own_sample()
    held = [os.dup(read) for _ in range(5)]
    thread.start()
    after = own_sample()
    assert after["fds"] - before["fds"] == 5
    assert after["threads"] - before["threads"] == 1
    assert 0 < after["pss_bytes"] <= after["rss_bytes"]
    ending.set()
    thread.join()
    for descriptor in (read, write, *held):
        os.close(descriptor)


def test_a_process_that_has_ended_has_no_sample():
    assert sampler.sample_of(1 << 22, App("x", 0)) is None


def samples(folder: Path, a_day: float) -> None:
    rows = [
        {"t_s": 10.0 * n, "app": "once", "pid": 7, "kind": "executor worker", "cpu_s": n / 10, "fds": 9}
        | {"rss_bytes": 150 * MIB + a_day * MIB * n / 8640, "kafkasource_kept.producers": n % 2}
        for n in range(720)
    ]
    (folder / report.SAMPLES).write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"t_s": 7')  # cut by a kill


def counts(read: int, lost: int = 0, doubled: int = 0) -> Counts:
    return Counts(read, lost, doubled)


@pytest.mark.parametrize(
    ("a_day", "records", "failure", "code"),
    [
        (0, Records(10, {"once": counts(10)}, drained=True), None, 0),
        (500, Records(10, {"once": counts(10)}, drained=True), None, 1),
        (0, Records(10, {"once": counts(9)}, drained=True), None, 1),
        (0, Records(10, {"once": counts(9)}, drained=False), None, 0),  # Ctrl-C: the tenth was under way
        (0, Records(10, {"once": counts(9, lost=1)}, drained=False), None, 1),
        (0, Records(10, {"once": counts(11, doubled=1)}, drained=True), None, 1),
        (0, Records(10, {"once": counts(10)}, drained=True), "mirror ended with code 1", 1),
    ],
)
def test_a_leak_a_wrong_count_and_what_ended_are_exit_code_1(tmp_path, a_day, records, failure, code):
    samples(tmp_path, a_day)
    assert report.write(tmp_path, records, failure) == code
    assert ("LEAK" in (tmp_path / "summary.txt").read_text()) == (a_day > 0)


def test_plot_and_verdicts_can_be_read_by_others(tmp_path):
    samples(tmp_path, 0)
    report.write(tmp_path, None, None)
    drawn = ElementTree.fromstring((tmp_path / "soak.svg").read_text())
    lines = [each for each in drawn.iter() if each.tag.endswith("polyline")]
    assert len(lines) == 3  # resident memory, descriptors, and the gauge that changes
    found = json.loads((tmp_path / "verdicts.json").read_text())
    assert {each["series"] for each in found} == {"rss_bytes", "fds", "kafkasource_kept.producers"}
