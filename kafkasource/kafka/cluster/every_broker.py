"""One question to every broker: each knows only of the groups and transactions that it coordinates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kafkasource.errors import ConnectFailed, ConnectionLost, KafkaSourceError, RequestTimeout, error_for
from kafkasource.kafka.cluster.caller import Caller
from kafkasource.kafka.network.connection import RequestBody
from kafkasource.kafka.network.pending import Pending
from kafkasource.kafka.protocol.apis import Api
from kafkasource.kafka.protocol.schema import Body

# An impatient question: how often it asks a broker, how long it waits, and how long where connecting failed before.
_TRIES, _PATIENCE_MS, _PATIENCE_AGAIN_MS = 2, 5_000, 500


class EveryBroker:
    """One question to every broker. `take` gets each broker's node id and answer.

    A patient question needs the answer of every broker. An impatient one leaves out a broker that cannot be reached
    within seconds, as long as another one answers. `leaves_out_busy`: also a broker that answers for seconds that it
    is not ready.
    """

    def __init__(
        self,
        caller: Caller,
        api: Api,
        body: RequestBody,
        take: Callable[[int, Body], None],
        *,
        patient: bool,
        leaves_out_busy: bool = False,
    ) -> None:
        self._caller = caller
        self._api = api
        self._body = body
        self._take = take
        self._patient = patient
        self._leaves_out_busy = leaves_out_busy
        self._begun_ms = caller.now_ms()
        self._answered: set[int] = set()
        self._failures: Counter[int] = Counter()
        self.unreachable: dict[int, KafkaSourceError] = {}  # by node id

    def ask(self, left_ms: float) -> dict[int, Pending]:
        """Send one request to each broker of the metadata that has not answered. Does not wait."""
        pendings = {}
        for node in self._caller.metadata.nodes():
            node_id = node.node_id
            if node_id not in self._answered and node_id not in self.unreachable:
                timeout_ms = self._patience_ms(node_id, left_ms)
                pendings[node_id] = self._caller.send(node_id, self._api, self._body, timeout_ms=timeout_ms)
        return pendings

    def _patience_ms(self, node_id: int, left_ms: float) -> float:
        timeout_ms = self._caller.timeout_ms(left_ms)
        if self._patient:
            return timeout_ms
        failed_before = self._caller.network.connect_failures(node_id)
        self._failures[node_id] += bool(failed_before)
        return min(timeout_ms, _PATIENCE_AGAIN_MS if failed_before else _PATIENCE_MS)

    def finish(self, what: str, sent: dict[int, Pending] | None = None) -> None:
        """Wait until each broker has answered or is left out, with retries. `what` names the question in errors.

        `sent`: requests of `ask` that are under way, to brokers just looked up.
        """

        def attempt(left_ms: float) -> None:
            nonlocal sent
            pendings, sent = sent, None
            if pendings is None:
                self._caller.ask_metadata([], left_ms)
                pendings = self.ask(left_ms)
            self._caller.wait(*pendings.values())
            again = [error for node_id, pending in pendings.items() if (error := self._take_answer(node_id, pending))]
            if not self._answered and self.unreachable:  # no broker answers: it is this client that is cut off
                again.extend(self.unreachable.values())
                self.unreachable.clear()
            if again:
                raise again[-1]
            nodes = {node.node_id for node in self._caller.metadata.nodes()}
            if nodes - self._answered - set(self.unreachable):  # brokers that came while we asked
                attempt(left_ms)

        self._caller.retrying(what, attempt)

    def _take_answer(self, node_id: int, pending: Pending) -> KafkaSourceError | None:
        """Hand an answer on; an error to retry after, or None. Raises the error code of an answer."""
        try:
            answer = pending.result()
        except (ConnectFailed, ConnectionLost, RequestTimeout) as error:
            self._failures[node_id] += 1
            return self._retry_or_leave_out(node_id, error, self._failures[node_id] < _TRIES)
        if answer["error_code"]:
            refusal = error_for(answer["error_code"], f"{self._api.name} of broker {node_id}")
            if not (refusal.retriable and self._leaves_out_busy):
                raise refusal
            return self._retry_or_leave_out(node_id, refusal, self._caller.now_ms() < self._begun_ms + _PATIENCE_MS)
        self._answered.add(node_id)
        self._take(node_id, answer)
        return None

    def _retry_or_leave_out(self, node_id: int, error: KafkaSourceError, again: bool) -> KafkaSourceError | None:
        if self._patient or again:
            return error
        self.unreachable[node_id] = error
        return None
