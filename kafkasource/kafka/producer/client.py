"""The part of the network client that a producer needs, and the topics for whose metadata tasks wait.

`Client` and `PendingAnswer` are `kafka.network`'s `NetworkClient` and its requests, as the sender sees them.
`AwaitedTopics` is the `waitOnMetadata` of Java's producer: the tasks wait, and the sender thread asks.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kafkasource.errors import (
    BootstrapFailed,
    BootstrapHopeless,
    BrokerError,
    DeadlineExceeded,
    InvalidTopic,
    KafkaSourceError,
    error_for,
    refusal,
)
from kafkasource.kafka.cluster.caller import servers_of
from kafkasource.kafka.network.connection import RequestBody
from kafkasource.kafka.network.metadata import Metadata, TopicMetadata, topic_error
from kafkasource.kafka.producer.config import SILENT_MS, ProducerConfig
from kafkasource.kafka.protocol.apis import METADATA, Api
from kafkasource.kafka.protocol.schema import Body
from kafkasource.kafka.security.quoting import printable

log = logging.getLogger("kafkasource.sink")

_MOST_CHARACTERS = 249  # of a topic's name (Kafka's Topic.validate); one of 32 kB has no place in a request


class PendingAnswer(Protocol):
    """A request on its way, as the client hands it out."""

    @property
    def done(self) -> bool: ...
    @property
    def error(self) -> BaseException | None: ...
    def result(self) -> Body: ...


class Client(Protocol):
    """The methods of `kafka.network.network_client.NetworkClient` that the sender needs."""

    @property
    def metadata(self) -> Metadata: ...
    @property
    def fatal(self) -> KafkaSourceError | None: ...
    @property
    def identity(self) -> str: ...
    @property
    def bootstrap_errors(self) -> Mapping[str, KafkaSourceError]: ...
    def bootstrap_is_hopeless(self) -> bool: ...
    def send(
        self,
        node_id: int,
        api: Api,
        body: RequestBody,
        *,
        timeout_ms: float | None = None,
        expect_response: bool = True,
        max_version: int | None = None,
    ) -> PendingAnswer: ...
    def least_loaded(self, now: float | None, in_vain: Mapping[int, int]) -> tuple[int | None, float]: ...
    def poll(self, timeout_ms: float) -> object: ...
    def wakeup(self) -> None: ...
    def close(self) -> None: ...


class Wakeup:
    """Makes the sender thread's present poll, or its next one, return at once. Any thread may call it.

    One byte to the poll is enough for a turn of the sender thread, however many threads have news.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._under_way = False

    def __call__(self) -> None:
        if not self._under_way:
            self._under_way = True
            self._client.wakeup()

    def turn_begins(self) -> None:
        """Note, in the sender thread, that it looks for news: a thread with later news wakes the poll."""
        self._under_way = False


class AwaitedTopics:
    """`await_topic` is for tasks' threads; the other methods are the sender thread's."""

    def __init__(
        self, config: ProducerConfig, client: Client, wakeup: Callable[[], None], clock_ms: Callable[[], float]
    ) -> None:
        self._config = config
        self._client = client
        self._wakeup = wakeup
        self._clock_ms = clock_ms
        self._news = threading.Condition()
        self._awaited: Counter[tuple[str, int]] = Counter()  # tasks waiting, by topic and partition
        self._expected: set[str] = set()  # topics to be asked about with the next one that a task waits for
        self._told: set[tuple[str, int]] = set()  # of those: the log says that they are waited for
        self._failure: BaseException | None = None

    def await_topic(self, topic: str, partition: int = 0, max_block_ms: int | None = None) -> TopicMetadata:
        """Wait for the metadata of a topic, up to `max_block_ms`. If they do not come, raises an error with the JVM
        connector's text.

        A partition that is not known may be about to be added, so this waits for it just as long, as Java's producer
        does. If it does not come, this returns the metadata without it, and the caller refuses its rows.
        """
        if len(topic) > _MOST_CHARACTERS:
            raise error_for(InvalidTopic.CODE, f"topic '{printable(topic)}', of {len(topic)} characters")
        self._client.metadata.use(topic)
        known = self._metadata_of(topic)
        if known is not None and partition in known.partitions:
            return known
        if known is None:
            log.debug("Requesting metadata update for topic %s", topic)
        else:
            log.debug("Requesting metadata update for partition %d of topic %s", partition, topic)
        if max_block_ms is None:
            max_block_ms = self._config.max_block_ms
        with self._news:
            self._awaited[topic, partition] += 1
            log.debug("Waking up Sender thread for metadata update")
            self._wakeup()
            try:
                return self._wait_for(topic, partition, max_block_ms)
            finally:
                self._awaited[topic, partition] -= 1
                if not self._awaited[topic, partition]:
                    del self._awaited[topic, partition]
                    self._told.discard((topic, partition))

    def expect(self, topics: Iterable[str]) -> None:
        """Ask about these topics with the first of them that a task waits for. One by one, with all known topics in
        each answer, the time would grow with their square. Any thread."""
        unknown = {topic for topic in topics if len(topic) <= _MOST_CHARACTERS and self._metadata_of(topic) is None}
        with self._news:
            self._expected |= unknown

    def _metadata_of(self, topic: str) -> TopicMetadata | None:
        known = self._client.metadata.topic(topic)
        return known if known is not None and known.partitions else None

    def _wait_for(self, topic: str, partition: int, max_block_ms: int) -> TopicMetadata:
        metadata = self._client.metadata
        began_ms = self._clock_ms()
        deadline_ms = began_ms + max_block_ms
        before = metadata.version  # an earlier error may be over by now (an ACL was granted): ask again
        while True:
            known = self._metadata_of(topic)
            now_ms = self._clock_ms()
            remaining_ms = deadline_ms - now_ms
            if known is not None and (partition in known.partitions or remaining_ms <= 0):
                return known
            if self._failure is not None:
                raise self._failure
            code = metadata.topic_errors.get(topic, 0) if metadata.version > before else 0
            error = topic_error(code, f"topic {topic!r}") if code else None
            if error is not None and not error.retriable:
                raise refusal(error, METADATA.name, self._client.identity)
            hopeless = not metadata.nodes() and self._client.bootstrap_is_hopeless()
            if hopeless or remaining_ms <= 0:
                waited_ms = round(max_block_ms - max(remaining_ms, 0))
                kind = BootstrapHopeless if hopeless else BootstrapFailed
                raise self._too_late(topic, waited_ms, f" ({error})" if error else "", kind)
            silent_ms = began_ms + SILENT_MS - now_ms
            if silent_ms <= 0 and (topic, partition) not in self._told:
                self._told.add((topic, partition))
                log.warning("%s", self._waits(topic, partition, known, error, max_block_ms))
            self._news.wait((min(remaining_ms, silent_ms) if silent_ms > 0 else remaining_ms) / 1000)

    def _waits(
        self, topic: str, partition: int, known: TopicMetadata | None, error: BrokerError | None, max_block_ms: int
    ) -> str:
        """Say what a task waits for. Under the lock, so nothing here may block."""
        limit = f"The task waits for {max_block_ms} ms in all ('kafka.max.block.ms')"
        if known is not None:
            return (
                f"topic {topic!r} has no partition {partition}, which a row names (it has {len(known.partitions)}). "
                f"{limit} for the partition to be added, and then fails"
            )
        if not self._client.metadata.nodes():
            tried = "; ".join(f"{address}: {why}" for address, why in self._client.bootstrap_errors.items())
            return f"no broker has answered for {SILENT_MS} ms ({tried}). {limit}"
        why = f" The broker answers: {error}" if error else ""
        return (
            f"topic {topic!r} is not there. {limit} for somebody to create it, and then fails. The option "
            f"'createTopic' lets the sink create the topic that the option 'topic' names.{why}"
        )

    def _too_late(self, topic: str, waited_ms: int, why: str, kind: type[BootstrapFailed]) -> KafkaSourceError:
        if not self._client.metadata.nodes():
            attempts = tuple((address, str(why)) for address, why in self._client.bootstrap_errors.items())
            return kind(attempts, waited_ms)
        return DeadlineExceeded(
            f"Topic {topic} not present in metadata after {waited_ms} ms, in the cluster at "
            f"{servers_of(self._config.client)}.{why} Create it first: the sink creates only what 'createTopic' tells "
            "it to. The wait is 'kafka.max.block.ms'."
        )

    def ask(self) -> None:
        """Ask for the metadata that tasks wait for."""
        with self._news:
            awaited = list(self._awaited)
            if awaited:
                expected, self._expected = self._expected, set()
        if awaited:
            self._client.metadata.want({topic for topic, _ in awaited} | expected)
            known = [(self._metadata_of(topic), partition) for topic, partition in awaited]
            if any(topic is None or partition not in topic.partitions for topic, partition in known):
                self._client.metadata.request_update()  # its own backoff spaces the questions

    def tell(self) -> None:
        """Wake the waiting tasks: there may be news."""
        if self._awaited:
            with self._news:
                self._news.notify_all()

    def fail(self, error: BaseException) -> None:
        """Wake the waiting tasks for good: no metadata will come any more."""
        with self._news:
            self._failure = error
            self._news.notify_all()
