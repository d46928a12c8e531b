"""The requests of one broker: those that wait for its connection, and the pauses that the broker asks for (KIP-219).

Kafka does from 2.0 on. In the versions that older brokers serve, throttle_time_ms says how long the broker held the
answer back. Other servers answer at once in these versions, too, so the client waits for the rest of that time.
"""

from __future__ import annotations

import logging
from collections import deque

from kafkasource.errors import ConnectFailed
from kafkasource.kafka.network.connection import Response
from kafkasource.kafka.network.pending import Pending, Shared
from kafkasource.kafka.network.stream import Stream

log = logging.getLogger("kafkasource.client")


class RequestQueue:
    """See the module. `now` is milliseconds of the client's clock; `broker` names the broker in texts."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.waiting: deque[Pending] = deque()  # not encoded yet
        self.throttled_until_ms = 0.0

    def take(self, pending: Pending, now: float) -> None:
        """The pause is not counted: its deadline is that much later."""
        pending.deadline_ms += max(0.0, self.throttled_until_ms - now)
        self.waiting.append(pending)

    def may_write(self, now: float) -> bool:
        """Does a request wait, and does the broker want no pause?"""
        return bool(self.waiting) and now >= self.throttled_until_ms

    def encode(self, stream: Stream, now: float) -> None:
        """Give the stream what waited for it, in order, unless the broker wants a pause."""
        while self.may_write(now):
            pending = self.waiting.popleft()
            assert pending.request is not None
            body, max_version = pending.request
            try:
                parts = stream.connection.send(
                    pending.api, body, pending, max_version=max_version, expect_response=pending.expect_response
                )
            except Exception as error:  # an unfit body or version concerns its sender only
                self._shared.fail([pending], error)
                continue
            pending.request = None  # the parts hold what is still needed of it
            pending.sent_ms = now
            log.debug("Sending %s request to node %d", pending.api.name, pending.node_id)
            stream.put(parts)
            if not pending.expect_response:
                stream.out.append(pending)

    def answered(self, response: Response[Pending], stream: Stream, now: float, broker: str) -> None:
        pending, body = response.token, response.body
        log.debug("Received %s response from node %d", pending.api.name, pending.node_id)
        pending.took_ms = now - pending.sent_ms
        pending.finish(body, None)
        self._shared.completed.append(pending)
        throttle = body.get("throttle_time_ms", 0)
        if response.version < pending.api.throttled_since:
            throttle -= pending.took_ms
        if throttle > 0:
            # The broker does not read from us for this long, so it answers nothing either.
            level = logging.WARNING if throttle >= 1000 else logging.DEBUG
            log.log(level, "%s asks for a pause of %.0f ms: a quota is exceeded", broker, throttle)
            self.throttled_until_ms = max(self.throttled_until_ms, now + throttle)
            for other in (*self.waiting, *stream.pending()):
                other.deadline_ms += throttle

    def fail_late(self, now: float, broker: str, why: str) -> None:
        """Requests that have waited for the connection until their deadline: nothing of them was sent."""
        for pending in [pending for pending in self.waiting if pending.deadline_ms <= now]:
            self.waiting.remove(pending)
            text = f"{broker}: {pending.api.name} not sent, no connection in time ({why})"
            self._shared.fail([pending], ConnectFailed(text))
