"""Writes the kernel's words for a type (`opcodes`)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence

import pyarrow as pa

from kafkasource.formats.json import kernel
from kafkasource.formats.json import opcodes as op
from kafkasource.formats.json.columns import JsonLayout, JsonNode
from kafkasource.formats.words import Words

_READS = {
    pa.float64(): op.READ_DOUBLE,
    pa.float32(): op.READ_FLOAT,
    pa.bool_(): op.READ_BOOLEAN,
    pa.string(): op.READ_TEXT,
    pa.binary(): op.READ_BASE64,
    pa.date32(): op.READ_DATE,
    pa.timestamp("us", "UTC"): op.READ_TIMESTAMP,
    pa.timestamp("us"): op.READ_LOCAL_TIMESTAMP,
}

_NOT_PLAIN = (1 << 31) - 1


def hash_of(name: bytes) -> int:
    """Compute the hash as the kernel's `_named` does."""
    found = 0
    for byte in name:
        found = (found * 31 + byte) & 0xFFFFFF
    return found ^ (found >> 12)


class JsonProgram(Words):
    """The words for one layout. A `decoding.decode.DecodingPrograms`."""

    def __init__(self, layout: JsonLayout) -> None:
        super().__init__([0])  # so that no entry is at 0, which says that there is none
        self._depth = 0
        self._longest = 0  # bytes of a name
        self._rescued = layout.rescued
        self._entry = self._node(layout.record, "$", 1)
        self._places.sort()
        self._words = bytes(self.code)

    def decoding(self, columns: Sequence[tuple[int, int, int, int]]) -> kernel.JsonDecoding:
        words = memoryview(bytearray(self._words)).cast("i")  # which it writes to
        return kernel.JsonDecoding(
            words, self._entry, self.constants, self._depth, self._longest, self._rescued, columns
        )

    def _node(self, node: JsonNode, place: str, depth: int) -> int:
        """Its words, and those of what is within it."""
        self._depth = max(self._depth, depth)
        data_type, first, second = node.type, 0, 0
        at = self._room(op.NODE_WORDS, place)
        if pa.types.is_struct(data_type):
            read, first = op.READ_STRUCT, self._block(node, place, depth)
        elif pa.types.is_list(data_type):
            read, first = op.READ_LIST, self._node(node.children[0], f"{place}[]", depth + 1)
        elif pa.types.is_map(data_type):
            read, first, second = (
                op.READ_MAP,
                self._node(node.children[1], f"{place}{{}}", depth + 1),
                node.children[0].column,
            )
        elif pa.types.is_decimal(data_type):
            read, first, second = op.READ_DECIMAL, data_type.scale, data_type.precision
        elif pa.types.is_integer(data_type):
            read, first = op.READ_INTEGER, data_type.bit_width // 8
        else:
            read = _READS[data_type]
        self.code[at : at + op.NODE_WORDS] = array("i", [read, node.column, int(node.nullable), first, second])
        return at

    def _block(self, node: JsonNode, place: str, depth: int) -> int:
        names = [field.name for field in node.type]
        nodes = [
            self._node(child, f"{place}.{name}", depth + 1) for name, child in zip(names, node.children, strict=True)
        ]
        entries = [self._room(op.ENTRY_WORDS, place) for _ in names]
        mask = (1 << (2 * len(names)).bit_length()) - 1
        slots = self._room(mask + 1, place)
        for number, (name, at) in enumerate(zip(names, entries, strict=True)):
            following = entries[(number + 1) % len(entries)]
            encoded = name.encode()
            self._longest = max(self._longest, len(encoded))
            plain = len(encoded) if json.dumps(name, ensure_ascii=False) == f'"{name}"' else _NOT_PLAIN
            self.code[at : at + op.ENTRY_WORDS] = array(
                "i", [self.constant(encoded), len(encoded), nodes[number], following, plain]
            )
            slot = hash_of(encoded) & mask
            while self.code[slots + slot]:
                slot = (slot + 1) & mask
            self.code[slots + slot] = at
        required = [each for each in zip(node.children, nodes, strict=True) if not each[0].nullable]
        listed = self._room(2 * len(required), place)
        for number, (child, word) in enumerate(required):
            self.code[listed + 2 * number : listed + 2 * number + 2] = array("i", [child.column, word])
        block = self._room(op.BLOCK_WORDS, place)
        self.code[block : block + op.BLOCK_WORDS] = array("i", [mask, slots, len(required), listed, entries[0]])
        return block

    def _room(self, words: int, place: str) -> int:
        """Add this many words, which are about a place, and return where they begin."""
        self.at(place)
        return self.emit(*[0] * words)
