"""One read, many clusters: each row of a task goes to every cluster that the option `clusters` names.

    options of the user ── targets ──> {name: ClusterTarget}: pure; each cluster's options are those of a plain sink

    task's thread    Arrow batch ─ columns ─> Rows ─ FanOut.append: for each cluster
                       placing      topic by template, partition of each row, lane of each row: one order of row numbers
                       watermarks   is there room? wait for it, or drop the oldest batches, or fail
                       Producer.hand_over to each lane's accumulator: no row is copied but by the encoder
    sender threads   one per lane, as for a plain sink: own producer id, own connections, own retries

A cluster has `producersPerCluster` lanes, all on one buffer pool: the bytes taken from it are the cluster's queue, and
what the watermarks look at. A row's lane is murmur2(key) % lanes, so that one key has one producer and keeps its order;
rows without a key take the lanes in turn, an Arrow batch each.

Watermarks (seed of the idea: a line that fails must not hold up the others). `block`: the pool ends at the high
watermark, who finds it full waits, and so does the reading. `discard` and `fail` act on a cluster whose queue is above
the high watermark *and* that holds the others up: they have drained below their low watermarks, or it has acknowledged
nothing for `slowClusterWait`. As long as all are as slow as each other, reading waits, and nothing is dropped that
would have been delivered; nor for a hiccup, since a cluster that answers may hold up the others for `slowClusterWait`,
and again for a tenth of the time. Dropped are whole batches, oldest first, none that may be on its way to a broker,
down to the low watermark; a lock is taken once for all of them. `maxRecordAge` drops rows that come too old, and
batches that have waited for so long.

A task ends when every cluster has acknowledged or discarded its rows. One that discards is waited for
`slowClusterWait` (or a tenth of the task) longer than the others; then what is left is discarded. Until a silent one
acknowledges something again it is only waited for once in ten times as long: a dead cluster costs a tenth of the time
at most, a healthy one nothing.

The ledger's invariant, for every cluster and topic-partition: handed over = acknowledged + discarded (in records). It
goes to the driver in the task's message, and from there to log and commit listener. What is on the wire when it is
discarded may still be stored.

Exactly once: a cluster's lanes are transactions `P-<cluster>-<slot>`, its decision record is its own, so a restart
finds each cluster decided or not and writes again only where it is not. No atomicity over clusters. Only `block` is
allowed.
"""
