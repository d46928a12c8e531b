"""The 61 bytes before the records of a record batch v2 (KIP-98), big-endian:

    baseOffset int64 | batchLength int32, counted from here on | partitionLeaderEpoch int32 | magic int8 = 2
    | crc uint32 | attributes int16 | lastOffsetDelta int32 | baseTimestamp int64 | maxTimestamp int64
    | producerId int64 | producerEpoch int16 | baseSequence int32 | records int32

The CRC32C covers the batch from `attributes` on, so a broker can set base offset and leader epoch without a new one.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct(">qiibIhiqqqhii")
PREFIX = struct.Struct(">qi")
HEADER_BYTES = HEADER.size
PREFIX_BYTES = PREFIX.size  # base offset and batch length, which the length does not count
MAGIC_POS = 16
CRC_POS = 17
ATTRIBUTES_POS = 21
PRODUCER_POS = 43
MIN_BATCH_LENGTH = HEADER_BYTES - PREFIX_BYTES

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # baseTimestamp is when the log cleaner may remove the batch's tombstones (KIP-534)
