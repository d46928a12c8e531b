"""What a broker from before ApiVersions (KIP-35, Kafka 0.10) is: which versions it serves, and how a client finds out.

0.8 closes the connection on an ApiVersions request. So do TLS listeners, proxies and brokers that are being stopped: a
close alone proves nothing, and the search takes more than one connection (`next_step`). On a new one the client sends a
request that only brokers from some release on answer, and after the answer ApiVersions. The answer and then a close: it
is that release. Two answers: it knows ApiVersions after all, and the second answer counts. No answer: the client tries
the next older release.

0.9 says nothing at all (it fails inside, on an index out of bounds, and goes on with the next request). So where an
answer to ApiVersions takes longer than `NUDGE_MS`, the client sends the request of 0.9 behind it. Answers come in
order: a slow broker answers ApiVersions first, and nothing is changed; a broker that answers the other one first has
dropped ApiVersions. (Where a broker wants SASL first, none of this may be sent: it allows nothing but ApiVersions.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkasource.protocol.apis import (
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
    Api,
)
from kafkasource.protocol.schema import Fields

AUTO = "auto"
NUDGE_MS = 200.0


@dataclass(frozen=True)
class Release:
    """The versions (inclusive) that brokers of a release serve, and a request that no older one answers."""

    name: str
    serves: Mapping[Api, tuple[int, int]]
    probe: tuple[Api, int, Fields]  # with its version and body

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        return {api.key: versions for api, versions in self.serves.items()}


_0_8_2 = {
    PRODUCE: (0, 0),
    FETCH: (0, 0),
    LIST_OFFSETS: (0, 0),
    METADATA: (0, 0),
    OFFSET_COMMIT: (0, 1),
    OFFSET_FETCH: (0, 1),
    FIND_COORDINATOR: (0, 0),
}
_0_9_0 = _0_8_2 | {
    PRODUCE: (0, 1),
    FETCH: (0, 1),
    OFFSET_COMMIT: (0, 2),
    JOIN_GROUP: (0, 0),
    HEARTBEAT: (0, 0),
    LEAVE_GROUP: (0, 0),
    SYNC_GROUP: (0, 0),
    DESCRIBE_GROUPS: (0, 0),
    LIST_GROUPS: (0, 0),
}

RELEASES: dict[str, Release] = {
    release.name: release
    for release in (
        Release("0.9.0", _0_9_0, (DESCRIBE_GROUPS, 0, {"groups": []})),  # of no group: a small answer from any broker
        # Asks for no offsets. Older ones know version 0 only.
        Release("0.8.2", _0_8_2, (OFFSET_FETCH, 1, {"group_id": "kafkasource-probe", "topics": []})),
    )
}
"""By `kafka.broker.version.fallback`, the newest first."""
SILENT = RELEASES["0.9.0"]
"""What drops ApiVersions without a word."""


@dataclass(frozen=True)
class Step:
    """What one connection of the search does. Neither: it asks for ApiVersions."""

    probe: Release | None = None  # is it this one?
    known: Release | None = None  # it is this one


def next_step(step: Step, identified: bool, fallback: str) -> Step | None:
    """The broker closed the connection of `step` before all was answered; None: there is nothing left to try.

    `identified`: it answered the step's probe. `fallback` is `kafka.broker.version.fallback`.
    """
    if step.known is not None:
        return None
    if identified:
        return Step(known=step.probe)
    if fallback != AUTO:
        return Step(known=RELEASES[fallback])
    order = list(RELEASES.values())
    rest = order[order.index(step.probe) + 1 :] if step.probe else order
    return Step(probe=rest[0]) if rest else None
