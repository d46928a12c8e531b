"""One storm: rounds, each with brokers and topics of its own, and all of it judged at its end.

A round is short, because the checker holds all that was written and read in memory. Its seed is the storm's plus its
number: `SEED=9` repeats the third round of a storm of seed 7 as its first.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from kafkasource.testing.broker.security.settings import Listener, Security
from lab.campaign import gather, login
from lab.campaign.campaign import QUIET_S, Result, await_queries
from lab.campaign.checker import Copy, History, Record, Report, Wait, Written, check
from lab.campaign.fault_log import FaultLog
from lab.campaign.faults import Fault, schedule
from lab.campaign.gather import DRAIN_MS
from lab.campaign.harms.application import MemberHarms
from lab.campaign.harms.brokers import BrokerHarms
from lab.campaign.harms.lane import Doing, Lane, NotPossible
from lab.campaign.lines import ToldLog
from lab.campaign.queries import (
    IN_PARTITIONS,
    OUT_PARTITIONS,
    POLICIES,
    SINKS,
    TOLD,
    Names,
    as_read,
    of_members,
    of_policies,
    of_sinks,
)
from lab.campaign.rig import VERSIONS, Brokers
from lab.campaign.storm import content, readers_app
from lab.campaign.storm.arming import Arming
from lab.campaign.storm.certificates import Certificates
from lab.campaign.storm.faults import SLOW_LANES, SLOW_PAUSES_S, TABLE, of_connections
from lab.campaign.storm.harms import StormHarms
from lab.campaign.storm.passing import TOLD as PASSING_TOLD
from lab.campaign.storm.passing import Removals
from lab.campaign.storm.processes import QUERIES, StormProcesses
from lab.campaign.storm.remade import Remaking, read_of
from lab.campaign.storm.writers_app import PARTITIONS, PASSING_PARTITIONS, WRITTEN, WRITTEN_PASSING
from lab.campaign.watch import Watch
from lab.campaign.whole_files import write_whole

ROUND_MINUTES = 10.0
PER_SECOND = 50.0  # faults of connections that are drawn; more of them than take effect
SECURITY = Security(
    (Listener("SASL_PLAINTEXT", ("SCRAM-SHA-256",), reauth_ms=login.SESSION_MS),), users=login.USERS
)  # TLS ends at the proxies, which must know requests
PROPERTIES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000}


def rounds(minutes: float) -> list[float]:
    """The minutes of each."""
    count = max(1, -(-minutes // ROUND_MINUTES))
    return [minutes / count] * int(count)


def run(
    seed: int,
    minutes: float,
    say: Callable[[str], None] = print,
    *,
    per_second: float = PER_SECOND,
    bugs: Sequence[str] = (),
    drain_ms: int = DRAIN_MS,
) -> list[Result]:
    """A result for each round. A round with findings is the last."""
    results: list[Result] = []
    for number, length in enumerate(rounds(minutes)):
        results.append(Round(seed + number, length, say, per_second, bugs, drain_ms).run())
        if results[-1].report.total:
            break
    return results


class Growing:
    """Tells the writers how many partitions the source has."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / PARTITIONS
        self.grow(IN_PARTITIONS)

    def grow(self, partitions: int) -> None:
        write_whole(self._file, str(partitions))


@dataclass(frozen=True)
class Parts:
    """Of a round, once its brokers run."""

    brokers: Brokers
    arming: Arming
    processes: StormProcesses
    growing: Growing
    watch: Watch
    removals: Removals
    remaking: Remaking
    certificates: Certificates | None


class Round:
    def __init__(
        self,
        seed: int,
        minutes: float,
        say: Callable[[str], None],
        per_second: float,
        bugs: Sequence[str],
        drain_ms: int,
    ) -> None:
        self._seed, self._minutes, self._say = seed, minutes, say
        self._per_second, self._bugs, self._drain_ms = per_second, bugs, drain_ms
        random = Random(f"{seed} storm")
        self._version = random.choice(VERSIONS)
        self._logins = random.randrange(3) == 0
        self._tls = self._logins and random.randrange(2) == 0
        self._folder = Path(tempfile.mkdtemp(prefix="storm-"))
        self._names, self._log = Names(uuid.uuid4().hex[:8]), FaultLog(self._folder / "faults.jsonl")

    def _copies(self, discarded: Path) -> list[Copy]:
        names = self._names
        return [
            *of_sinks(names),
            *of_policies(names, content.sums(discarded)),
            of_members(names),
            *(as_read(name, names, f"what {name} gave") for name in readers_app.NAMES),
        ]

    def run(self) -> Result:
        seed, names, log, folder = self._seed, self._names, self._log, self._folder
        log.note(
            "begins",
            seed=seed,
            version=self._version,
            logins=self._logins,
            tls=self._tls,
            minutes=self._minutes,
            bugs=list(self._bugs),
        )
        logins = f"sessions of {login.SESSION_MS} ms" if self._logins else "no logins"
        logins += " over TLS" if self._tls else ""
        self._say(f"seed {seed}: Kafka {self._version}, {logins}, {self._minutes:g} minutes; log in {folder}")
        certificates = Certificates(folder / "certificates") if self._tls else None
        arming = Arming(log, certificates.context if certificates else None)
        with Brokers(self._version, arming.proxies, PROPERTIES, SECURITY if self._logins else None) as brokers:
            written = [names.west, *map(names.target, QUERIES), *map(names.west_of, POLICIES)]
            brokers.create(
                {names.source: IN_PARTITIONS, names.passing: PASSING_PARTITIONS}
                | dict.fromkeys(written, OUT_PARTITIONS)
            )
            growing = Growing(folder)
            with_login = brokers.login() | (certificates.options() if certificates else {})
            parts = Parts(
                brokers,
                arming,
                StormProcesses(brokers.servers, names, folder, seed, self._bugs, with_login),
                growing,
                Watch(brokers, names, log),
                Removals(brokers, names),
                Remaking(brokers, names),
                certificates,
            )
            try:
                parts.remaking.begin()
                parts.processes.start()
                await_queries(parts.watch, SINKS)
                self._say(f"{log.now_ms() / 1000:.0f} s: every query writes; the faults begin")
                began_ms = log.now_ms()
                self._harm(parts)
                rate = log.counts.total() * 1000 / (log.now_ms() - began_ms)
                self._say(f"{log.now_ms() / 1000:.0f} s: {log.counts.total()} faults, {rate:.1f}/s; the copies drain")
                log.note("harmed", renewed_sessions=sum(proxy.renewals for proxy in arming.proxies))
                report, records = self._judge(parts)
            finally:
                parts.processes.end()
        self._say(f"{log.now_ms() / 1000:.0f} s: {report.total} findings in {sum(records.values())} records")
        return Result(seed, self._version, self._minutes, log.counts, records, report, folder)

    def _passing(self, written: Sequence[Written], removals: Removals) -> Sequence[Record]:
        """What the reader of the topic that loses records gave, once it has all that it did not call lost."""
        log, until_ms = ToldLog(self._folder / readers_app.PASSING), self._log.now_ms() + self._drain_ms
        while True:
            log.look()
            passed = removals.passed(self._folder)
            lacks = check(History(written, {passed.told: log.records}, passed=[passed])).counts["lost"]
            if not lacks or self._log.now_ms() > until_ms:
                return log.records
            time.sleep(1)

    def _harm(self, parts: Parts) -> None:
        """For the round's minutes."""
        log, brokers, arming, processes, watch = self._log, parts.brokers, parts.arming, parts.processes, parts.watch
        of_brokers = BrokerHarms(brokers, self._names, [parts.growing])

        def harm_brokers(fault: Fault) -> None:
            if not arming.proxies[fault.node - 1].serves():
                raise NotPossible(f"no client has asked node {fault.node} for anything")
            of_brokers.do(fault)

        by_lane: dict[str, Doing] = {
            "brokers": harm_brokers,
            "application": StormHarms(processes, brokers.whole, watch, log).do,
            "members": MemberHarms(processes.members).do,
            "retention": parts.removals.remove,
            "topics": parts.remaking.make_again,
        }
        if parts.certificates is not None:
            by_lane["certificates"] = parts.certificates.change
        lanes = [
            Lane(lane, schedule(self._seed, lane, SLOW_PAUSES_S, table=TABLE), by_lane[lane], log)
            for lane in SLOW_LANES
            if lane in by_lane
        ]
        watch.start()
        arming.begin(of_connections(self._seed, self._per_second, self._logins))
        for lane in lanes:
            lane.start()
        until_s = time.monotonic() + self._minutes * 60
        while time.monotonic() < until_s:
            time.sleep(1)
            processes.keep_running()
        for lane in lanes:
            lane.stop()
        arming.stop()
        for lane in lanes:
            lane.wait()
        watch.stop()

    def _judge(self, parts: Parts) -> tuple[Report, dict[str, int]]:
        """Quiet, drain, one last look at rest, check."""
        names, folder, log = self._names, self._folder, self._log
        brokers, processes, watch = parts.brokers, parts.processes, parts.watch
        parts.remaking.finish()
        processes.crash_file.unlink(missing_ok=True)
        processes.keep_running()
        processes.end_writers()
        time.sleep(QUIET_S)
        told: dict[str, ToldLog] = {f"what {name} gave": ToldLog(folder / name) for name in readers_app.NAMES}
        drain = gather.Drain(
            brokers.servers,
            names.source,
            self._copies(processes.discarded),
            {**told, TOLD: processes.members},
            log,
            self._drain_ms,
        )
        logs = drain.run()
        processes.kill_application()
        watch.look(at_rest=True)
        drain.look_again()
        drain.close()
        atomic = gather.batches(folder / "checkpoints" / "atomic", "atomic", names.source)
        of_passing = content.told(folder / WRITTEN_PASSING, names.passing)
        written = [*content.told(folder / WRITTEN, names.source), *of_passing]
        failed = [Wait(f"a client: {failure}", 0, None, 0) for failure in processes.failures]
        failed += [Wait(f"a handshake: {each}", 0, None, 0) for each in parts.arming.refused_handshakes]
        copies = self._copies(processes.discarded)
        logs[PASSING_TOLD] = self._passing(of_passing, parts.removals)
        parts.remaking.await_all(folder, self._drain_ms / 1000)
        written += [each for of_one in parts.remaking.written for each in of_one]
        of_remade, may_lack = read_of(folder, parts.remaking)
        passed = [parts.removals.passed(folder), *may_lack]
        history = gather.history(written, logs | of_remade, copies, atomic, [], watch, [*drain.waits, *failed], passed)
        outcomes = Counter(each.outcome.value for each in written)
        log.note("judged", faults=dict(log.counts), written=dict(outcomes), batches=len(atomic))
        report = log.report(check(history))
        counts = {name.removesuffix(f"-{names.stem}"): len(records) for name, records in logs.items()}
        return report, counts | {"the topics made again": sum(map(len, of_remade.values()))}
