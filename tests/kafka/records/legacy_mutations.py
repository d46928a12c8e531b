"""Random messages v0 and v1, and lies about them whose CRCs are right. All by the random.Random that is handed in."""

from __future__ import annotations

import struct

from legacy_wire import CODECS, LOG_APPEND, TIME, message, repaired, wrapper

EDGES = [-(1 << 31), -129, -2, -1, 0, 1, 2, 3, 7, 8, 13, 14, 21, 22, 127, 255, 1 << 13, (1 << 31) - 1, 1 << 40]
# Positions and formats of every number before key and value; a length of v0 stands at 18, of v1 at 26.
FIELDS = [(0, ">q"), (8, ">i"), (16, ">b"), (17, ">b"), (18, ">q"), (18, ">i"), (26, ">i")]


def sample(rng, magic, codec, first_offset):
    """(inner messages or None, one message as bytes, the offset behind it)."""
    attributes = LOG_APPEND if magic and rng.random() < 0.3 else 0
    count = 1 if codec == "none" else rng.randrange(1, 6)
    base = 0 if magic and codec != "none" else first_offset
    inner = [
        message(
            base + i,
            rng.choice([None, b"", b"key"]),
            rng.choice([None, b"", rng.randbytes(rng.randrange(60))]),
            magic=magic,
            attributes=attributes if codec == "none" else 0,
            timestamp=rng.choice([-1, TIME + rng.randrange(1000)]),
        )
        for i in range(count)
    ]
    if codec == "none":
        return None, inner[0], first_offset + 1
    last = first_offset + count - 1
    return inner, wrapper(inner, last, codec=codec, magic=magic, attributes=attributes), last + 1


def mutated(rng, inner, data):
    """`data`, or what it wraps, with something else in it."""
    if inner is None or rng.random() < 0.3:
        return _one_mutated(rng, data)
    magic, codec = data[16], next(name for name, code in CODECS.items() if code == data[17] & 7)
    inner = list(inner)
    which = rng.randrange(len(inner))
    kind = rng.randrange(6)
    if kind == 0:
        del inner[which]
    elif kind == 1:
        inner.insert(which, rng.choice(inner))
    elif kind == 2:
        inner[-1] = inner[-1][: rng.randrange(len(inner[-1]))]
    else:
        inner[which] = _one_mutated(rng, inner[which])
    (offset,) = struct.unpack_from(">q", data)
    return wrapper(inner, offset, codec=codec, magic=magic, attributes=data[17] & LOG_APPEND)


def _one_mutated(rng, data):
    data = bytearray(data)
    if rng.random() < 0.6:
        pos, form = rng.choice([field for field in FIELDS if field[0] + 8 <= len(data)])
        bits = 8 * struct.calcsize(form)
        value = rng.choice([*EDGES, struct.unpack_from(form, data, pos)[0] + rng.choice([-1, 1])])
        struct.pack_into(form, data, pos, (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)))
    else:
        pos = rng.randrange(16, len(data))
        what = rng.randrange(3)
        if what == 0:
            data[pos] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif what == 1:
            del data[pos : pos + rng.randrange(1, 5)]
        else:
            data[pos:pos] = rng.randbytes(rng.randrange(1, 5))
        if rng.random() < 0.8:
            struct.pack_into(">i", data, 8, len(data) - 12)
    return bytes(repaired(bytes(data)))
