"""Bytes between links and their sockets: what is queued is written, what comes is taken apart into responses."""

from __future__ import annotations

import logging

from kafkasource.client.connection import Parts
from kafkasource.client.link import NEVER, Link, Pending
from kafkasource.client.links import READ, WRITE, Links, reason_of
from kafkasource.protocol.schema import Body

log = logging.getLogger("kafkasource.client")

_RECEIVES_PER_POLL = 32  # of one socket, so that a fast broker does not starve the others


class Streams(Links):
    """Base of `NetworkClient`. Requests that get done are put into `_completed`."""

    def _serve(self, link: Link, events: int, now: float) -> None:
        if not link.connected and not self._finish_connect(link, now):
            return
        transport = link.transport
        if events & READ:
            self._receive(link, now)
        if transport is not None and link.transport is transport:  # else: closed, or the next attempt began
            self._write(link, now)

    def _finish_connect(self, link: Link, now: float) -> bool:
        assert link.transport is not None
        assert link.connection is not None
        try:
            link.connected = link.transport.finish_connect()
        except OSError as error:
            self._address_failed(link, now, reason_of(error))
            return False
        if link.connected:
            self._enqueue(link, link.connection.negotiate())
            link.nudge_at_ms = now + link.nudge_after_ms
            if link.connection.ready:
                self._became_ready(link, now)
                self._write_queued(link, now)
        return link.connected

    def _nudge(self, link: Link, now: float) -> None:
        """No answer to ApiVersions so far; see `releases`."""
        link.nudge_at_ms = NEVER
        if link.connection is not None and not link.connection.pending_bytes:
            self._enqueue(link, link.connection.nudge())
            self._write(link, now)

    def _receive(self, link: Link, now: float) -> None:
        transport, connection = link.transport, link.connection
        assert transport is not None
        assert connection is not None
        for _ in range(_RECEIVES_PER_POLL):
            target = connection.writable()
            try:
                size = transport.receive_into(target)
            except OSError as error:
                self._stream_ended(link, now, reason_of(error))
                return
            if size is None:
                return
            if size == 0:
                self._stream_ended(link, now, "the broker closed the connection")
                return
            link.last_used_ms, link.receiving = now, True
            was_ready = connection.ready
            received = connection.received(size)
            for response in received.responses:
                self._answered(link, response.token, response.body, now)
            if received.error is not None:
                if connection.ready:
                    self._lost(link, now, f"closed, because {received.error}", received.error)
                else:
                    self._address_failed(link, now, str(received.error), received.error)
                return
            self._enqueue(link, received.reply)
            if connection.ready and not was_ready:
                self._became_ready(link, now)
                self._write_queued(link, now)
                if link.transport is None:
                    return
            if size < len(target):
                return  # the socket is empty; if it is not, select says so

    def _stream_ended(self, link: Link, now: float, reason: str) -> None:
        connection = link.connection
        assert connection is not None
        if not connection.ready:
            hint = ""
            if not connection.pending_bytes:
                if self._next_step(link, now):
                    return
                hint = " (no answer to ApiVersions, nor as Kafka 0.9 or 0.8.2: a TLS listener, or not Kafka?)"
            self._address_failed(link, now, reason + hint)
        elif connection.pending_bytes:
            self._lost(link, now, f"{reason} in the middle of a response ({connection.pending_bytes} bytes had come)")
        else:
            self._lost(link, now, reason)

    def _answered(self, link: Link, pending: Pending, body: Body, now: float) -> None:
        log.debug("Received %s response from node %d", pending.api.name, link.node_id)
        pending.took_ms = now - pending.sent_ms
        pending.finish(body, None)
        self._completed.append(pending)
        link.round_trip_ms = min(link.round_trip_ms, pending.took_ms)
        throttle = body.get("throttle_time_ms", 0)
        if throttle > 0:
            # The broker does not read from us for this long (KIP-219), so it answers nothing either.
            log.log(
                logging.WARNING if throttle >= 1000 else logging.DEBUG,
                "%s asks for a pause of %d ms: a quota is exceeded",
                link.name,
                throttle,
            )
            link.throttled_until_ms = max(link.throttled_until_ms, now + throttle)
            for other in link.pending():
                other.deadline_ms += throttle

    def _write_queued(self, link: Link, now: float) -> None:
        """Encode what waited for the connection, in order, and write as much as the socket takes."""
        connection = link.connection
        assert connection is not None
        while link.queue and now >= link.throttled_until_ms:
            pending = link.queue.popleft()
            assert pending.request is not None
            body, max_version = pending.request
            try:
                parts = connection.send(
                    pending.api, body, pending, max_version=max_version, expect_response=pending.expect_response
                )
            except Exception as error:  # an unfit body or version concerns its sender only
                self._fail([pending], error)
                continue
            pending.request = None  # the parts hold what is still needed of it
            pending.sent_ms = now
            log.debug("Sending %s request to node %d", pending.api.name, link.node_id)
            self._enqueue(link, parts)
            if not pending.expect_response:
                link.out.append(pending)
        self._write(link, now)

    def _enqueue(self, link: Link, parts: Parts) -> None:
        link.out.extend(memoryview(part).cast("B") for part in parts if len(part))

    def _write(self, link: Link, now: float) -> None:
        transport, out = link.transport, link.out
        assert transport is not None
        while out:
            first = out[0]
            if isinstance(first, Pending):
                out.popleft()
                first.finish({}, None)
                self._completed.append(first)
                continue
            pieces: list[memoryview] = []
            for item in out:
                if isinstance(item, Pending):
                    break
                pieces.append(item)
            try:
                sent = transport.send(pieces)
            except OSError as error:
                self._stream_ended(link, now, reason_of(error))
                return
            if not sent:
                break
            link.last_used_ms = now
            for piece in pieces:
                if sent < len(piece):
                    out[0] = piece[sent:]
                    break
                sent -= len(piece)
                out.popleft()
                if not sent:
                    break
        self._want(link, READ | WRITE if out else READ)

    def _want(self, link: Link, events: int) -> None:
        if link.events != events and link.transport is not None:
            self._selector.modify(link.transport, events, link)
            link.events = events
