"""The figures of a run as Markdown and as JSON, and whether what was promised holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lab.benchmarks.mirror.contest import Figures
from lab.benchmarks.mirror.proof import Proof
from lab.benchmarks.results import OURS

READ_ONCE = 1.05  # times the topic's size: fetches overlap where a leader cuts one short


@dataclass(frozen=True)
class MirrorRun:
    """One run: where, with what, and everything that was measured."""

    date: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    proofs: list[Proof]
    figures: list[Figures]

    def as_json(self) -> dict[str, Any]:
        text = asdict(self)
        for one, told in zip(self.figures, text["figures"], strict=True):
            told |= {"per_second": one.per_second, "per_cpu_second": one.per_cpu_second, "times_read": one.times_read}
        return text


def middle(figures: Sequence[Figures]) -> list[Figures]:
    """Of each contestant's turns with so many targets, the one whose records per CPU second are in the middle; one that
    failed where any did. Fewest targets first, then in the order in which they were measured."""
    turns: dict[tuple[int, str], list[Figures]] = {}
    for one in figures:
        turns.setdefault((one.targets, one.contestant), []).append(one)
    return sorted(map(_middle, turns.values()), key=lambda one: one.targets)


def _middle(turns: Sequence[Figures]) -> Figures:
    failed = next((one for one in turns if one.failure is not None), None)
    ordered = sorted(turns, key=lambda one: one.per_cpu_second)
    return failed or ordered[(len(ordered) - 1) // 2]


def verdicts(figures: Sequence[Figures]) -> Iterator[tuple[str, bool]]:
    """What has to hold with two and three targets, and whether it does."""
    shown = middle(figures)
    for targets in sorted({one.targets for one in shown if one.targets > 1}):
        there = {one.contestant: one for one in shown if one.targets == targets}
        ours = there.get(OURS)
        if ours is None or ours.failure is not None:
            yield f"{targets} targets: mirrored", False
            continue
        yield f"{targets} targets: the source is read once ({ours.times_read:.2f} ×)", ours.times_read <= READ_ONCE
        for name, peer in there.items():
            if name != OURS and peer.per_cpu_second:
                ratio = ours.per_cpu_second / peer.per_cpu_second
                yield f"{targets} targets: {ratio:.2f} × the records per CPU second of {name}", ratio > 1


def kept(proofs: Sequence[Proof]) -> Iterator[tuple[str, bool]]:
    """What each policy promises, and whether it held. A task that failed promises nothing but that it is told."""
    for proof in proofs:
        if proof.failed is not None:
            yield f"{proof.case}: the query fails and says why", "SlowCluster" in proof.failed
            continue
        yield f"{proof.case}: the source is read once ({proof.times_read:.2f} ×)", proof.times_read <= READ_ONCE
        found = proof.found.values()
        yield (
            f"{proof.case}: nothing doubled, each key in order",
            not any(one.doubled or one.disordered for one in found),
        )
        yield (
            f"{proof.case}: missing is at most what was reported as discarded, and that is with what was written all",
            all(one.missing <= one.discarded and one.written + one.discarded == proof.records for one in found),
        )


COLUMNS = (
    "to",
    "who",
    "records/s",
    "a CPU second",
    "CPU s: own / brokers",
    "whole run, s / CPU s",
    "peak memory",
    "read from the source",
)


def markdown(run: MirrorRun) -> str:
    lines = [
        f"Run of {run.date}: " + ", ".join(f"{name} {value}" for name, value in run.machine.items()) + ".",
        "Versions: " + ", ".join(f"{name} {value}" for name, value in run.versions.items()) + ".",
    ]
    if run.figures:
        lines += ["", "## Beside MirrorMaker 2", "", *_rows(run.figures), ""]
        lines += [f"- {text}: {'met' if met else 'MISSED'}" for text, met in verdicts(run.figures)]
    if run.proofs:
        lines += ["", "## One read, three clusters", "", *_proofs(run.proofs), ""]
        lines += [f"- {text}: {'met' if met else 'MISSED'}" for text, met in kept(run.proofs)]
    return "\n".join(lines) + "\n"


def _rows(figures: Sequence[Figures]) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    before = 0
    for one in middle(figures):
        yield f"| {one.targets if one.targets != before else ''} | {one.contestant} | {' | '.join(cells(one))} |"
        before = one.targets


def cells(one: Figures) -> list[str]:
    if one.failure is not None:
        return [f"failed: {one.failure}".replace("|", "\\|")] + [""] * (len(COLUMNS) - 3)
    return [
        f"{one.per_second:,.0f}",
        f"{one.per_cpu_second:,.0f}",
        f"{one.cpu_seconds:.1f} / {one.brokers_cpu_seconds:.1f}",
        f"{one.run_seconds:.0f} / {one.run_cpu_seconds:.0f}",
        f"{one.peak_mb:,.0f} MB",
        f"{one.read_bytes / 1e6:,.0f} MB ({one.times_read:.2f} ×)",
    ]


def _proofs(proofs: Sequence[Proof]) -> Iterator[str]:
    yield "| case | seconds | read from the source | target | stored | missing | doubled | out of order | discarded |"
    yield "|---" * 9 + "|"
    for proof in proofs:
        lead = f"{proof.case} | {proof.seconds:.1f} | {proof.read_bytes / 1e6:,.0f} MB ({proof.times_read:.2f} ×)"
        for name, one in proof.found.items():
            counts = (one.stored, one.missing, one.doubled, one.disordered, one.discarded)
            yield f"| {lead} | {name} | {' | '.join(f'{count:,}' for count in counts)} |"
            lead = " |  | "
        if proof.failed is not None:
            yield f"| | | | failed: {proof.failed} | | | | | |".replace("'", "")
