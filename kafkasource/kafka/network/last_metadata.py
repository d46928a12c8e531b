"""The last Metadata answer of a client, so that the same answer again, from whichever broker, is not decoded again.

Each micro-batch asks whether there are new partitions; of 1,000 old ones the answer takes 7 ms to decode, and decoded
it takes ten times its bytes. So there is one for all connections of a client.

Brokers tell the same of the topics, byte for byte, once they know the same. What comes before the topics differs:
throttle_time_ms, and controller_id, for which a broker with KRaft names any broker, another at each request.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasource.kafka.protocol.apis import METADATA, Api
from kafkasource.kafka.protocol.frames import decode_head, decode_response
from kafkasource.kafka.protocol.primitives import Buffer
from kafkasource.kafka.protocol.schema import Body


class LastMetadata:
    """See the module. Of the thread that polls the client."""

    def __init__(self) -> None:
        self._last: tuple[int, bytes, Body] | None = None  # version, the bytes from the topics on, the body

    def decode(self, version: int, frame: Buffer, surplus: Callable[[Api, int, int], None] | None = None) -> Body:
        """Decode a response. Its topics are the very list of the last one's where they are the same.

        `surplus`: see `decode_response`.
        """
        head, rest = decode_head(METADATA, version, frame, "topics")
        topics, last = bytes(rest), self._last
        if last is not None and last[:2] == (version, topics):
            return {**last[2], **head}
        body = decode_response(METADATA, version, frame, surplus)
        self._last = version, topics, body
        return body
