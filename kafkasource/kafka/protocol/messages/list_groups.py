"""ListGroups (key 16): the groups whose coordinator the asked broker is; all brokers together know all groups."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, STRING, Array, Field

# fmt: off
LIST_GROUPS_REQUEST = Message("ListGroupsRequest", api_key=16, versions=(0, 5), flexible_since=3, fields=[
    Field("states_filter", Array(STRING), since=4),  # KIP-518; empty: all
    Field("types_filter", Array(STRING), since=5)])  # KIP-848; empty: all

LIST_GROUPS_RESPONSE = Message("ListGroupsResponse", api_key=16, versions=(0, 5), flexible_since=3, fields=[
    Field("throttle_time_ms", INT32, since=1, ignorable=True),
    Field("error_code", INT16),
    Field("groups", Array([
        Field("group_id", STRING),
        Field("protocol_type", STRING),  # empty: only offsets were committed, nobody ever joined
        Field("group_state", STRING, since=4, ignorable=True),
        Field("group_type", STRING, since=5, ignorable=True)]))])  # classic, consumer (KIP-848), share, streams
