"""How a batch moves: the table `states.BATCH` names the next state and action, whose outcome is the next event."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kafkasource.exactly_once.errors import ImpossibleEvent
from kafkasource.exactly_once.states import BATCH, BatchAction, BatchEvent, BatchState

log = logging.getLogger("kafkasource.sink")

Steps = Mapping[BatchAction, Callable[[], BatchEvent]]
"""How a process carries out the actions. Each blocks and returns what came of it."""


def next_move(state: BatchState, event: BatchEvent) -> tuple[BatchState, BatchAction | None]:
    """Raises ImpossibleEvent where the table has no such pair."""
    try:
        return BATCH[state, event]
    except KeyError:
        raise ImpossibleEvent(
            f"internal error: with exactly_once the event {event.name} cannot happen to a batch that is {state.name}. "
            "The query's next start recovers the batch as after a crash. Please report this, with the driver's log at "
            "KAFKASOURCE_LOG=DEBUG"
        ) from None


def move(batch: str, state: BatchState, event: BatchEvent, steps: Steps) -> BatchState:
    """Move until there is nothing more to do. Returns the last state. Raises what the actions raise.

    `batch` is for the log.
    """
    while True:
        before = state
        state, action = next_move(before, event)
        log.debug("%s: %s, %s -> %s", batch, before.name, event.name, state.name)
        if action is None:
            return state
        event = steps[action]()
