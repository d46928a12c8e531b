"""One read, many clusters: each row of a task goes to every cluster that the option `clusters` names.

A write without that option goes the same way. Its one cluster has no name (`targets.ONLY`) and gets all rows. It has
one producer, no watermarks and the policy `fail`: a task that finds the memory full waits for `kafka.max.block.ms`.

    options of the user ── targets ──> {name: ClusterTarget}: pure; each cluster's options are those of a plain sink

    task's thread    Arrow batch ─ columns ─> Rows ─ FanOut.append: for each cluster
                       routing        topic by template, partition and producer of each row: one order of row numbers
                       slow_cluster   is there room? wait for it, or drop the oldest batches, or fail
                       placement      the same, once for clusters that place alike; which rows their batches can share
                       Producer.hand_over to each producer's accumulator: only the encoder copies a row
    sender threads   one per producer, as for a plain sink: own producer id, own connections, own retries; of equal
                     batches the first to be closed is compressed, for all clusters (producer/sharing)

A cluster has `producersPerCluster` producers, all on one buffer pool. The bytes taken from the pool are the cluster's
queue, which the watermarks look at. A row's producer is murmur2(key) % producers, so all rows of a key have the same
producer and keep their order; rows without a key take the producers in turn, an Arrow batch each.

Watermarks: a cluster that fails must not hold up the others. With `block` the pool ends at the high watermark: a task
that finds it full waits, and with it the reading. `discard` and `fail` act on a cluster whose queue is above the high
watermark *and* that holds the others up: they have drained below their low watermarks, or it has acknowledged nothing
for `slowClusterWait`. As long as all clusters are equally slow, reading waits, and no record is dropped that would have
been delivered. A short pause drops nothing either: a cluster that answers may hold up the others for `slowClusterWait`,
and then for a tenth of the time. Whole batches are dropped, oldest first, down to the low watermark, but none that may
be on its way to a broker. `maxRecordAge` drops rows that are too old when they come, and batches that have waited for
that long.

A task ends when every cluster has acknowledged or discarded its rows. With `discard`, the task waits `slowClusterWait`
(or a tenth of its time) longer for a cluster than for the others, and then discards the rest. The sink tries a cluster
that was silent for this time again after ten times as long, until it acknowledges something: a dead cluster costs at
most a tenth of the time, a healthy one nothing. A topic that a cluster with `discard` refuses is asked for again by the
same rule (`Refusals`).

The ledger's invariant, for every cluster and topic-partition: handed over = acknowledged + discarded (in records). It
goes to the driver in the task's message, and from there to the log and the commit listener. A request that is on the
wire when its records are discarded may still be stored.

Exactly once: a task has a transaction for each producer of a cluster, `P-<cluster>-<slot>`. Each cluster has a decision
record of its own, so a restart finds each decided or not, and writes again only where it is not. Clusters are not
atomic together. Only `block` is allowed.
"""
