"""Bugs that only faults of connections, or a topic made again, bring to light: the storm must find them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class StormBug:
    rule: str  # which must find it
    of: str  # the module of kafkasource right after whose import it is planted
    plant: Callable[[], None]

    @property
    def module(self) -> str:
        return f"kafkasource.{self.of}"


def _lost_answer_is_success() -> None:
    """A batch whose answer did not come counts as stored."""
    from kafkasource.errors import TransportError
    from kafkasource.kafka.producer.request import Outcome

    sender: Any = import_module("kafkasource.kafka.producer.sender")

    right = sender.outcome_of

    def planted(answer: Any, **more: Any) -> Outcome:
        return Outcome.STORED if isinstance(answer.error, TransportError) else right(answer, **more)

    sender.outcome_of = planted


def _another_id_each_time() -> None:
    """A batch whose answer did not come goes again under a new producer id, as after UNKNOWN_PRODUCER_ID."""
    from kafkasource.errors import TransportError
    from kafkasource.kafka.producer.request import Outcome

    sender: Any = import_module("kafkasource.kafka.producer.sender")

    right = sender.outcome_of

    def planted(answer: Any, **more: Any) -> Outcome:
        unknown = isinstance(answer.error, TransportError) and answer.batch.delivery.transaction is None
        return Outcome.RENEW if unknown and answer.batch.sequenced else right(answer, **more)

    sender.outcome_of = planted


def _forgets_its_id() -> None:
    """No producer id, by which the broker would know a batch that comes again."""
    from kafkasource.kafka.producer.config import ProducerConfig

    right = ProducerConfig.from_options

    def planted(options: Any) -> ProducerConfig:
        return replace(right(options), idempotent=False)

    ProducerConfig.from_options = planted  # type: ignore[method-assign]


def _retries_at_the_end() -> None:
    """A batch that is sent again goes behind those that wait, and no producer id tells the broker."""
    from kafkasource.kafka.producer.batch import PartitionBatches, ProducerBatch

    def planted(self: PartitionBatches, batch: ProducerBatch) -> None:
        self.in_flight.remove(batch)
        batch.number = self.next_number
        self.next_number += batch.record_count
        self.waiting.append(batch)

    PartitionBatches.put_back = planted  # type: ignore[method-assign]
    _forgets_its_id()


def _forgets_aborts() -> None:
    """An abort commits."""
    from kafkasource.kafka.cluster.transactions import Transactions

    right: Any = Transactions.end

    def planted(self: Transactions, name: str, producer: Any, _commit: bool, version: Any) -> Any:
        return right(self, name, producer, True, version)

    Transactions.end = planted  # type: ignore[method-assign, assignment]


def _takes_a_name_for_a_topic() -> None:
    """Of a topic that was deleted and made again, the next offset is read as if nothing had happened."""
    planner: Any = import_module("kafkasource.source.plan.planner")
    planner.recreated_topics = lambda _before, _now: set()


BUGS: dict[str, StormBug] = {
    "a lost answer is success": StormBug("lost", "kafka.producer.sender", _lost_answer_is_success),
    "forgets its id": StormBug("doubled", "kafka.producer.config", _forgets_its_id),
    "another id each time": StormBug("doubled", "kafka.producer.sender", _another_id_each_time),
    "retries at the end": StormBug("reordered", "kafka.producer.batch", _retries_at_the_end),
    "takes a name for a topic": StormBug("lost", "source.plan.planner", _takes_a_name_for_a_topic),
    "forgets aborts": StormBug("aborted", "kafka.cluster.transactions", _forgets_aborts),
}
