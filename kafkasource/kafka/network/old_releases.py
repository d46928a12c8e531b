"""Finds the versions that a broker serves, if that takes more than one connection.

A server that does not know the asked version of ApiVersions should answer in version 0 (KIP-511). Azure Event Hubs
resets the connection instead. So if a connection ends without that answer, the client sends the next lower form on the
next connection (`FORMS`). After a close or a reset the client makes that connection at once. After
silence the next attempt makes it: a broker that hangs must count as a broker that cannot be reached. The client
remembers the step that worked by the broker's address, and begins with it the next time (`HandshakeStep.next_time`).

Brokers from before ApiVersions (KIP-35, Kafka 0.10) come after the lowest form, where the listener wants no SASL. 0.8
closes the connection. So do TLS listeners, proxies and brokers that are being stopped: a close alone proves nothing
(`HandshakeStep.after_end`). On a new connection the client sends a request that only brokers from some release on
answer, and after the answer ApiVersions. The answer and then a close: it is that release. Two answers: it knows
ApiVersions after all, and the second answer counts. No answer: the client tries the next older release. Decision 60.

0.9 says nothing at all (it fails inside, on an index out of bounds, and goes on with the next request). So where
ApiVersions is not answered for a while (`HandshakeStep.nudge_after_ms`), the client sends the request of 0.9 behind
it. Answers come in order: a slow broker answers ApiVersions first, and nothing is changed; a broker that answers the
other request first has dropped ApiVersions. 0.9 drops the lowest form, too. A broker that closes the connection after
that request may close it because of that request, so the next connection goes without. (Where a broker wants SASL
first, none of this may be sent: it allows nothing but ApiVersions.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafkasource.kafka.protocol.apis import (
    API_VERSIONS,
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
from kafkasource.kafka.protocol.schema import Fields
from kafkasource.types import NEVER

AUTO = "auto"

FORMS = (API_VERSIONS.versions[1], 3, 0)
"""The versions of ApiVersions to ask in. The requests of 2, 1 and 0 differ in nothing but that number."""

_UNANSWERED_MS = 2000.0  # more than a broker of today takes on any line
_EXPECTED_MS = 200.0  # where the user names an old release


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
class HandshakeStep:
    """One connection of the search. Without `probe` and `known` it asks for ApiVersions at once."""

    version: int = FORMS[0]  # of ApiVersions
    probe: Release | None = None  # is it this one?
    known: Release | None = None  # it is this one
    silent: bool = False  # the broker dropped ApiVersions before: ask at once whether it does so now
    nudges: bool = True  # False: it closed the connection on that question

    def nudge_after_ms(self, fallback: str) -> float:
        """Say how long to wait for ApiVersions before asking whether the broker drops it."""
        if not self.nudges:
            return NEVER
        if self.silent:
            return 0.0
        return _UNANSWERED_MS if fallback == AUTO else _EXPECTED_MS

    def next_time(self, found: Release | None) -> HandshakeStep:
        """Return the first step of the next connection, after this step worked and found this.

        The client probes again for an old release, because brokers are upgraded.
        """
        if found is None:
            return HandshakeStep() if self.probe is not None else replace(self, silent=False)
        return HandshakeStep(FORMS[-1], silent=True) if found is SILENT else HandshakeStep(probe=found)

    def after_drop(self) -> HandshakeStep:
        """Return the step after a broker answered what came behind ApiVersions, which was not in the lowest form."""
        lower = self._lower()
        assert lower is not None
        return replace(lower, silent=True)

    def after_silence(self) -> HandshakeStep:
        """Return the first step of the next attempt: the broker did not answer this step in time."""
        lower = self._lower() if self.probe is None else None
        return HandshakeStep() if lower is None else replace(lower, nudges=True)

    def _lower(self) -> HandshakeStep | None:
        return next((replace(self, version=version) for version in FORMS if version < self.version), None)

    def after_end(self, identified: bool, nudged: bool, fallback: str, sasl: bool) -> HandshakeStep | None:
        """Return the step after a broker ended the connection too early; None: there is nothing left to try.

        `identified`: it answered the step's probe. `nudged`: it was asked whether it drops ApiVersions. `fallback` is
        `kafka.broker.version.fallback`.
        """
        if self.known is not None:
            return None
        if identified:
            return HandshakeStep(known=self.probe)
        if nudged:
            return replace(self, silent=False, nudges=False)
        lower = self._lower() if self.probe is None else None
        if lower is not None or sasl:
            return lower
        if fallback != AUTO:
            return HandshakeStep(known=RELEASES[fallback])
        order = list(RELEASES.values())
        rest = order[order.index(self.probe) + 1 :] if self.probe else order
        return HandshakeStep(probe=rest[0]) if rest else None
