"""Which settings of a topic the mirror itself has put there, and over which clusters they came.

For topics that flows carry in a circle under one name. A flow carries what changed at its source. What another flow has
just written there looks like such a change: carried home, it would undo what was changed at home meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping


class CarriedSettings:
    """Of all topics of a mirror, since it started. For several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By cluster and topic, by setting: the value that the mirror has put there, and the clusters that it was in.
        self._put: dict[tuple[str, str], dict[str, tuple[str | None, frozenset[str]]]] = {}

    def been_in(self, cluster: str, topic: str, settings: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
        """By setting: the clusters that the value came from, where the mirror has put it there, and nobody has changed
        it since. `settings`: those that the topic has now."""
        with self._lock:
            put = self._put.get((cluster, topic), {})
            for name in [name for name, (value, _) in put.items() if settings.get(name) != value]:
                del put[name]
            return {name: clusters for name, (_, clusters) in put.items()}

    def put(
        self,
        cluster: str,
        topic: str,
        settings: Mapping[str, str | None],
        source: str,
        been_in: Mapping[str, frozenset[str]],
    ) -> None:
        """The mirror puts these there, from the topic at `source`, whose settings have `been_in` clusters before."""
        came = {name: (value, been_in.get(name, frozenset()) | {source}) for name, value in settings.items()}
        with self._lock:
            self._put.setdefault((cluster, topic), {}).update(came)
