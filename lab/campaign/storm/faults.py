"""The table of the storm's faults: those of single connections, and slower ones of the campaign beside them. Pure.

A fault of a connection waits for the next request that it may meet: any request of our clients to its node but the
first ones of a connection (ApiVersions, logins), or the next request of one API to whichever node. It meets one request
on one connection, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kafkasource.kafka.protocol import apis
from kafkasource.kafka.protocol.apis import Api
from lab.campaign.faults import BY_NAME as OF_CAMPAIGN
from lab.campaign.faults import Fault, Kind, schedule

LANE = "connections"
ANY = "any"
TO_MEET: tuple[Api, ...] = (  # rarer than reads, so that a fault of any request seldom meets them
    apis.PRODUCE,
    apis.FETCH,
    apis.INIT_PRODUCER_ID,
    apis.ADD_PARTITIONS_TO_TXN,
    apis.ADD_OFFSETS_TO_TXN,
    apis.TXN_OFFSET_COMMIT,
    apis.END_TXN,
    apis.OFFSET_COMMIT,
    apis.OFFSET_FETCH,
    apis.JOIN_GROUP,
    apis.SYNC_GROUP,
    apis.HEARTBEAT,
    apis.FIND_COORDINATOR,
    apis.METADATA,
    apis.API_VERSIONS,
)
OF_LOGINS: tuple[Api, ...] = (apis.SASL_HANDSHAKE, apis.SASL_AUTHENTICATE)  # the second also renews sessions
BY_API_NAME = {api.name: api for api in (*TO_MEET, *OF_LOGINS)}
# Half of the faults meet any request; of the others PRODUCE and END_TXN have more than their share.
VARIANTS = (
    *(ANY,) * (len(TO_MEET) + 5),
    *(api.name for api in TO_MEET),
    *(apis.PRODUCE.name,) * 3,
    *(apis.END_TXN.name,) * 2,
)

CONNECTIONS = (
    Kind("cut in a request", LANE, 6, variants=VARIANTS),  # at any byte; the broker gets what comes before it
    Kind("cut in an answer", LANE, 6, variants=VARIANTS),
    Kind("answer lost", LANE, 8, variants=VARIANTS),  # the broker has done what was asked
    Kind("answer truncated", LANE, 2, variants=VARIANTS),  # in a frame that claims to be whole
    Kind("request delayed", LANE, 4, (0.05, 1.5), VARIANTS),
    Kind("answer delayed", LANE, 4, (0.05, 1.5), VARIANTS),
    Kind("stalled in a request", LANE, 2, (0.2, 5), VARIANTS),  # both ways; then it goes on where it stopped
    Kind("stalled in an answer", LANE, 2, (0.2, 5), VARIANTS),
    Kind("thin connection", LANE, 2, (0.5, 4), VARIANTS),
    Kind("half open", LANE, 1, variants=VARIANTS),  # from a byte of the request on nothing passes, either way
    Kind("refused", LANE, 3, (0.02, 0.2), VARIANTS),  # cut, and the node takes no connection for a while
)
_SLOWER = (
    "kill a broker",
    "hang a broker",
    "stop a broker",
    "move leaders",
    "add a partition",
    "upgrade a broker",
    "kill a Python process",
    "crash at a point",
    "kill the driver",
    "hang a Python process",
    "kill a member",
    "hang a member",
    "a member leaves",
)
# How far a clock goes, in seconds. Brokers refuse records that are an hour ahead of theirs.
CLOCKS = ("-86400", "-3600", "-20", "20", "600", "3000")
APPLICATION = (
    Kind("roll back a checkpoint", "application", 3, variants=("not yet done", "not yet planned")),
    Kind("clock jumps", "application", 2, (1, 6), CLOCKS),
)
BROKERS = (Kind("fill a disk", "brokers", 2, (0.5, 4)),)
RETENTION = (Kind("retention passes a reader", "retention", 1),)
TOPICS = (Kind("a topic is made again", "topics", 1),)
CERTIFICATES = (
    Kind("certificates change", "certificates", 1, (1, 3), variants=("of the brokers", "of the clients", "of the CA")),
)
BESIDES = (*BROKERS, *APPLICATION, *RETENTION, *TOPICS, *CERTIFICATES)  # what the campaign does not have
TABLE = (*CONNECTIONS, *BESIDES, *(OF_CAMPAIGN[name] for name in _SLOWER))
SLOW_LANES = ("brokers", "application", "members", "retention", "topics", "certificates")
SLOW_PAUSES_S = (1.0, 8.0)


def of_connections(seed: int, per_second: float, logins: bool = False) -> Iterator[Fault]:
    """Without end, so many a second on average. `logins`: clients log in, and renew their sessions."""
    between_s = 1 / per_second
    more = tuple(api.name for api in OF_LOGINS) * 3 if logins else ()
    table = [replace(kind, variants=(*kind.variants, *more)) for kind in CONNECTIONS]
    return schedule(seed, LANE, (0.25 * between_s, 1.75 * between_s), table=table)
