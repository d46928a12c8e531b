"""The memory of large answers: blocks of the budget's part `receive`, one set for all clients of this process.

Blocks are kept for the next answer while a task reads, and after it for the next task. How many, and how large, follows
what the reading tasks were granted; a process in which only others work keeps none.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkasource.kafka import memory
from kafkasource.kafka.protocol.frames import READ_AHEAD_BYTES, FrameBuffers

FRAMES = 3
"""The receive memory of a task holds so many frames of one size: the answer that is decoded, one that arrives, and the
smaller block that this one grew out of. The first two are used again."""


class _ReceiveBlocks(memory.PartMemory):
    """Called by the budget in any thread; takes no lock."""

    def __init__(self, budget: memory.Budget) -> None:
        self.budget = budget
        account = budget.accounts[memory.RECEIVE]
        self.buffers = FrameBuffers(0, 0, lambda size: memory.Block(account, size))

    def resize(self, granted: Sequence[int]) -> None:
        """A frame is larger than what it was asked for, by its header, and a block is a multiple of a step."""
        self.buffers.resize((FRAMES - 1) * len(granted), max(granted) // FRAMES + 2 * READ_AHEAD_BYTES)

    def trim(self) -> None:
        self.buffers.resize(0, 0)


_blocks: _ReceiveBlocks | None = None


def frame_buffers() -> FrameBuffers:
    """This process's. Any thread: where two make them at once, one of both gets into disuse."""
    global _blocks
    budget = memory.process_budget()
    blocks = _blocks
    if blocks is None or blocks.budget is not budget:
        blocks = _blocks = _ReceiveBlocks(budget)
    budget.keep(memory.RECEIVE, blocks)
    return blocks.buffers
