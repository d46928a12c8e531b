"""The option `failedOverTo`: a query goes on in a cluster that keeps offsets, as Cluster Linking's mirror topics do.

There the topics have the same names and other ids, and their leaders other epochs: to the planner they are topics that
were made again. Only an operator knows that they are not. The checkpoint says which cluster it is of, so the option
counts once: the next checkpoint is of the new cluster.
"""

from __future__ import annotations

import logging

from kafkasource.errors import OptionError
from kafkasource.source.plan.offsets import StreamOffset

log = logging.getLogger("kafkasource.source")


def failed_over(offset: StreamOffset, wanted: str, here: str | None) -> StreamOffset:
    """The offset, without what identifies its logs if it is of another cluster than the `wanted` one.

    `here`: the id of the cluster that answers. Raises OptionError if it is not the wanted one.
    """
    if here != wanted:
        answers = "the cluster that answers has no id" if here is None else f"cluster {here} answers"
        raise OptionError(
            f"option 'failedOverTo' is {wanted}, and {answers}: name the cluster to which the query has failed over, or"
            " leave the option out"
        )
    if offset.cluster_id == wanted or not (offset.topic_ids or offset.leader_epochs):
        return offset
    before = "a cluster without an id" if offset.cluster_id is None else f"cluster {offset.cluster_id}"
    log.warning("option 'failedOverTo': the offsets of %s are taken for those of cluster %s", before, wanted)
    start = None if offset.start is None else StreamOffset(offset.start.offsets)
    return StreamOffset(offset.offsets, start=start)
