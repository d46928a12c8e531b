"""What a stage is given, and what all of them do with contestants that took their turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lab.benchmarks import clients
from lab.benchmarks.lab import Lab
from lab.benchmarks.records import Records
from lab.benchmarks.results import SECONDS, Measure, Row
from lab.benchmarks.turns import Run, take_turns


@dataclass(frozen=True)
class Effort:
    """How much is done: a quick run has less of all, to be done in six minutes."""

    quick: bool
    turns: int  # timed runs of each contestant

    def rows(self, full: int) -> int:
        """A tenth in a quick run."""
        return full // 10 if self.quick else full


StageRun = Callable[[Lab, Effort], Iterator[Row]]  # yields rows as they are known; raises what ends the stage


def compare(
    work: str,
    contestants: Mapping[str, Run],
    turns: int,
    *,
    records: Records | None = None,
    notes: Mapping[str, str] | None = None,
    measure: Measure = SECONDS,
    warm_up: int = 2,
    cpu: bool = True,
) -> Iterator[Row]:
    """A row for each contestant, in the order given. `cpu` where the values are seconds of the same work."""
    for name, result in take_turns(contestants, turns, warm_up=warm_up).items():
        yield Row(
            work,
            name,
            measure,
            tuple(result.values),
            records.rows if records else None,
            records.payload_bytes if records else None,
            (notes or {}).get(name, ""),
            result.failure,
            tuple(result.cpu_seconds) if cpu else (),
        )


def client_runs(task: str, records: Records, arguments: Callable[[], dict[str, object]]) -> dict[str, Run]:
    """The other Python clients at the same work, with fewer records and their seconds scaled to all of them.

    Only without a codec and headers: the rest says nothing more about them, and takes minutes.
    """
    if not plain(records):
        return {}

    def run_of(client: str) -> Run:
        count = client_records(client, records)

        def run() -> float:
            answer = clients.run(task, client, **arguments(), records=count)
            return float(answer["seconds"]) * records.rows / count

        return run

    return {client: run_of(client) for client in clients.CLIENTS}


def plain(records: Records) -> bool:
    return records.codec == "none" and not records.headers


def turns_of(effort: Effort, records: Records) -> int:
    """Fewer where it is about the ratio between codecs."""
    return effort.turns if plain(records) else min(effort.turns, 3)


def client_records(client: str, records: Records) -> int:
    """Fewer for the slow ones, but enough for the cost of connecting not to count."""
    return min(records.rows, max(int(records.rows * clients.SHARE[client]), 5_000_000 // (records.value_bytes + 7)))


def client_notes(records: Records) -> dict[str, str]:
    return {
        client: f"outside Spark, one process; scaled from {client_records(client, records):,} records"
        for client in clients.CLIENTS
    }
