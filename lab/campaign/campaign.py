"""One campaign, from its brokers to its report."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from confluent_kafka import KafkaException

from lab.campaign import gather
from lab.campaign.checker import Report, check
from lab.campaign.fault_log import FaultLog
from lab.campaign.faults import TABLE, Kind, schedule
from lab.campaign.gather import DRAIN_MS
from lab.campaign.harms.application import MemberHarms, SparkHarms
from lab.campaign.harms.brokers import BrokerHarms
from lab.campaign.harms.lane import Doing, Lane
from lab.campaign.harms.network import NetworkHarms
from lab.campaign.lines import ToldLog
from lab.campaign.processes import Processes
from lab.campaign.producers import Idempotent, Producing, Transactional
from lab.campaign.queries import FOLLOW, IN_PARTITIONS, MIRROR, OUT_PARTITIONS, SINKS, TOLD, Names, copies
from lab.campaign.rig import VERSIONS, Rig
from lab.campaign.watch import Watch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MASTERS = ("local[3,3]", "local-cluster[2,2,512]")  # with three attempts of a task; two executors of two cores
START_S = 400.0  # for all queries to write something
QUIET_S = 5.0


@dataclass(frozen=True)
class Result:
    seed: int
    version: str
    minutes: float
    faults: Counter[str]
    records: dict[str, int]  # by log
    report: Report
    folder: Path


def run(
    seed: int,
    minutes: float,
    say: Callable[[str], None] = print,
    *,
    bugs: Sequence[str] = (),
    kinds: Sequence[Kind] = TABLE,
    drain_ms: int = DRAIN_MS,
) -> Result:
    """`bugs`: to be planted; `kinds`: of faults; `drain_ms`: what has not come for so long never comes."""
    random = Random(seed)
    version, codec, master = random.choice(VERSIONS), random.choice(CODECS), random.choice(MASTERS)
    folder = Path(tempfile.mkdtemp(prefix="campaign-"))  # short: unix sockets are made in it
    names, log = Names(uuid.uuid4().hex[:8]), FaultLog(folder / "faults.jsonl")
    log.note(
        "begins",
        seed=seed,
        version=version,
        codec=codec,
        master=master,
        minutes=minutes,
        bugs=list(bugs),
        kinds=[k.name for k in kinds],
    )
    say(f"seed {seed}: Kafka {version}, {codec}, {master}, {minutes:g} minutes; log and checkpoints in {folder}")
    with Rig(version) as rig:
        written = [names.west, *map(names.target, SINKS)]
        rig.create({names.source: IN_PARTITIONS} | dict.fromkeys(written, OUT_PARTITIONS))
        producers: list[Producing] = [
            kind(rig.servers, names.source, IN_PARTITIONS, seed, log, codec) for kind in (Idempotent, Transactional)
        ]
        processes = Processes(rig.servers, names.stem, names.source, folder, bugs, master)
        watch = Watch(rig, names, log)
        try:
            for producer in producers:
                producer.start()
            processes.start()
            await_queries(watch, [*SINKS, MIRROR])
            say(f"{log.now_ms() / 1000:.0f} s: every query writes; the faults begin")
            by_lane: dict[str, Doing] = {
                "brokers": BrokerHarms(rig, names, producers).do,
                "network": NetworkHarms(rig).do,
                "application": SparkHarms(processes, rig.whole, watch, log).do,
                "members": MemberHarms(processes.members).do,
            }
            lanes = dict.fromkeys(kind.lane for kind in kinds)
            _faults(
                minutes, [Lane(lane, schedule(seed, lane, table=kinds), by_lane[lane], log) for lane in lanes], watch
            )
            rig.heal()
            log.counts["lose an answer"] = sum(proxy.harmed for proxy in rig.frame_proxies)  # those that met an answer
            say(f"{log.now_ms() / 1000:.0f} s: {log.counts.total()} faults are done; the copies drain")
            report, records = _judge(rig, names, processes, producers, watch, log, folder, drain_ms)
        finally:
            processes.end()
    return Result(seed, version, minutes, log.counts, records, report, folder)


def await_queries(watch: Watch, queries: Iterable[str]) -> None:
    """Until each has written something. Raises TimeoutError."""
    deadline, waiting = time.monotonic() + START_S, set(queries)
    while waiting:
        with suppress(KafkaException):  # a broker may not have heard of the topics yet
            waiting = {query for query in waiting if not sum(watch.ends(query).values())}
        if time.monotonic() > deadline:
            raise TimeoutError(f"queries that have written nothing within {START_S:g} s: {sorted(waiting)}")
        time.sleep(1)


def _faults(minutes: float, lanes: Sequence[Lane], watch: Watch) -> None:
    watch.start()
    for lane in lanes:
        lane.start()
    try:
        time.sleep(minutes * 60)
    finally:
        for lane in lanes:
            lane.stop()
    for lane in lanes:
        lane.wait()
    watch.stop()


def _judge(
    rig: Rig,
    names: Names,
    processes: Processes,
    producers: list[Producing],
    watch: Watch,
    log: FaultLog,
    folder: Path,
    drain_ms: int,
) -> tuple[Report, dict[str, int]]:
    """Quiet, drain, one last look at rest, check."""
    processes.crash_file.unlink(missing_ok=True)
    for producer in producers:
        producer.stop()
    time.sleep(QUIET_S)
    told: dict[str, gather.GrowingLog] = {FOLLOW: ToldLog(processes.followed), TOLD: processes.members}
    drain = gather.Drain(rig.servers, names.source, copies(names), told, log, drain_ms)
    logs = drain.run()
    processes.kill_application()
    watch.look(at_rest=True)
    drain.look_again()
    drain.close()
    atomic = gather.batches(folder / "checkpoints" / "atomic", "atomic", names.source)
    said = gather.translations(rig.servers, names, logs[names.source])
    written, failed = gather.of_producers(producers)
    history = gather.history(written, logs, copies(names), atomic, said, watch, [*drain.waits, *failed])
    seen = {"batches": len(atomic), "glimpses": len(watch.glimpses), "waits": len(history.waits), "map": len(said)}
    log.note("judged", faults=dict(log.counts), **seen)
    report = log.report(check(history))
    return report, {name.removesuffix(f"-{names.stem}"): len(records) for name, records in logs.items()}
