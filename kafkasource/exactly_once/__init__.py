"""Exactly once: transactions that the driver decides, batch by batch. docs/exactly-once.md has the protocol.

driver     begins a batch, decides it, commits or aborts the transactions of its tasks
task       a task's transactions, and the sum over the contents of its rows
decision   the record in the offsets topic that says what was decided     decision_status   what a restart finds
states     the plan of a batch as a table                                 names, prefix     transactional ids

A newcomer follows one micro-batch from begin to commit in five files, in this order:

1. `driver.driver`   the protocol in one page; `ExactlyOnce` is all that the sink calls on the driver
2. `driver.begin`    before the tasks: ends what an earlier run left, and gives each task the `BegunBatch`
3. `task.task`       in each task: decides whether to write, opens its transaction, and reports what it wrote
4. `driver.commit`   after the tasks: commits the decision record, then the tasks' transactions
5. `states`          the table `BATCH`, which names the steps of begin and commit and their order

The sink imports this room; the room imports `kafka` and `options` only.
"""
