"""Exactly once: transactions that the driver decides, batch by batch. docs/exactly-once.md has the protocol.

driver     begins a batch, decides it, commits or aborts the transactions of its tasks
task       a task's transactions, and the sum over the contents of its rows
decision   the record in the offsets topic that says what was decided     decision_status   what a restart finds
states     the plan of a batch as a table                                 names, prefix     transactional ids

A newcomer starts with `states`, then `driver.driver`. The sink imports it; it imports `kafka` and `options` only.
"""
