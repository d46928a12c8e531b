"""`pykafka mirror` prints lines while it runs, from progress as Spark writes it."""

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from spark_progress import progress

from kafkasource.mirror import toml_file
from kafkasource.mirror.plan import routes
from kafkasource.mirror.positions import Logs, MirrorReader, PositionRecord, replan
from kafkasource.tools.cli.mirror_status import IN_LOG_S, MirrorStatus

BEGAN = 1_700_000_000.0
FILE = """
checkpoint = "/nowhere"
[clusters.east]
kafka.bootstrap.servers = "e:1"
[clusters.west]
kafka.bootstrap.servers = "w:1"
[clusters.north]
kafka.bootstrap.servers = "n:1"
[[flows]]
from = "east"
to = "west"
topics = ["t"]
[[flows]]
from = "east"
to = "north"
topics = ["other"]
"""


@pytest.fixture
def run():
    (route,) = routes(toml_file.parse(FILE, "mirror.toml"))
    readers, _ = replan(1, route.rules, {}, Logs({}, {}), None)
    return SimpleNamespace(source="east", record=PositionRecord(1, "east", {}, route.rules, readers, {}, {}), errors=[])


@pytest.fixture
def said(run):
    """Advances the clock, gives the query this progress, and returns what was printed."""
    now, stream = [BEGAN], io.StringIO()
    status = MirrorStatus([run], stream, lambda: now[0])
    query = SimpleNamespace(lastProgress=None)

    def after(seconds, told=None):
        now[0] += seconds
        if told is not None:
            query.lastProgress = told
        stream.seek(0)
        stream.truncate()
        status.look([query])
        return [line.partition("  ")[2] for line in stream.getvalue().splitlines()]

    return after


def test_a_log_gets_a_line_a_minute_of_each_flow_with_rate_lag_and_end(said):
    def told(batch, seconds, read):
        latest = {0: 30_000, 1: 500}
        return progress(batch, BEGAN + seconds, {0: read, 1: 500}, latest, rows=9, name="mirror-east")

    assert said(IN_LOG_S / 2) == []
    assert said(IN_LOG_S / 2) == [
        "east->west: no micro-batch has ended yet",
        "east->north: no micro-batch has ended yet",
    ]
    (west, north) = said(IN_LOG_S, told(0, 119, 12_000))
    assert west.startswith("east->west: lag 18,000 in 1 of 2 partitions, oldest ")
    assert north == "east->north: no partitions"
    (west, _) = said(IN_LOG_S, told(1, 179, 24_000))
    assert west.startswith("east->west: 200 offsets/s, lag 6,000 in 1 of 2 partitions, oldest ")
    assert west.endswith(", done in 30 s")
    (west, _) = said(IN_LOG_S)
    assert west.endswith(", as of 60 s ago, when micro-batch 1 ended")


def test_a_flow_that_catches_up_and_what_failed_have_lines_of_their_own(said, run):
    west, north = run.record.rules.flows
    catch_up = MirrorReader("2-to-north", (north,), {}, {})
    run.record = replace(run.record, readers=(MirrorReader("2", (west,), {}), catch_up))
    run.errors.append("query mirror-east-to-north: \x1b[2Jno\nleader")
    assert said(IN_LOG_S) == [
        "east->west: no micro-batch has ended yet",
        "east->north catches up: no micro-batch has ended yet",
        "failed, and is tried again: query mirror-east-to-north: \\x1b[2Jno\\x0aleader",
    ]
