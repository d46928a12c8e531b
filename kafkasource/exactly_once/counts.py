"""How many transactions a batch with exactly once opened, found and ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionCounts:
    """The numbers of transactions that a batch with exactly once opened or found."""

    opened: int = 0  # opened by its tasks; those of failed attempts are not known
    committed: int = 0  # of those; fewer if brokers had given some up and 'lostTransactions' is skip
    oldest_open_ms: float | None = None  # how long the oldest of them had been open when the batch was decided
    recovered: int = 0  # those of the batch before: decided then, but committed only when this run began
    aborted: int = 0  # left open by an earlier run or by failed attempts, aborted when this batch began

    def __str__(self) -> str:
        parts = []
        if self.opened:
            open_for = "" if self.oldest_open_ms is None else f", open for up to {self.oldest_open_ms / 1000:.1f} s"
            lost = self.opened - self.committed
            of = f" of {self.opened}" if lost else ""
            parts.append(f"{self.committed}{of} {'transaction' if self.opened == 1 else 'transactions'}{open_for}")
        if self.recovered:
            parts.append(f"{self.recovered} of an earlier run recovered")
        if self.aborted:
            parts.append(f"{self.aborted} left open before aborted")
        return ", ".join(parts)
