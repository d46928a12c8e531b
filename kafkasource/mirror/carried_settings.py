"""Settings of a topic that the mirror itself has written, and the clusters over which they came.

Needed for topics that flows carry in a circle under one name. A flow carries changes of its source. A setting that
another flow has just written there looks like a change: carried home, it would undo a change that was made at home
meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping


class CarriedSettings:
    """Settings of all topics of a mirror, since it started. For several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The value that the mirror has written and the clusters where it was: by cluster and topic, then by setting.
        self._put: dict[tuple[str, str], dict[str, tuple[str | None, frozenset[str]]]] = {}

    def been_in(self, cluster: str, topic: str, settings: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
        """Find, by setting, the clusters that the value came from: of settings that the mirror has written and nobody
        has changed since. `settings`: the topic's present settings."""
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
