"""THE table of parity: the cases that run through the JVM connector and through ours, with the claim of each.

Shared topics: `$numbers` holds 101, 11 and 1 records in its three partitions (the sizes of the JVM connector's own
limit tests), `$other` 5 in one, `$aged` 8 of which the first 4 aged out, `$headers` all kinds of headers, keys and
values, `$transactions` 3 committed (offsets 0-2), 3 aborted (4-6), 2 committed (8-9) and 2 of an open transaction
(11-12), `$empty` none. A record's timestamp is T0 + 1000 * its offset. How a case reads: `parity.py`.
"""

from __future__ import annotations

from parity import Case

from parity_cases import checkpoints, clients, limits, loss, positions, rows, selection, splitting, writes

READS: tuple[Case, ...] = (
    *selection.CASES,
    *positions.CASES,
    *limits.CASES,
    *splitting.CASES,
    *loss.CASES,
    *rows.CASES,
    *clients.CASES,
    *checkpoints.CASES,
)
WRITES: tuple[Case, ...] = writes.CASES
CASES = (*READS, *WRITES)
