"""Walks a run of record batches: finds the wanted ones, checks and decompresses them, before the kernel fills any
column.

The kernel reads the headers and checks the CRCs. This module does the rest: compressed batches, control batches,
transactions, and the error where the kernel stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from kafkasource.errors import CorruptRecordBatch
from kafkasource.kafka.records import header as h
from kafkasource.kafka.records import kernel, message_set
from kafkasource.kafka.records.checksum import crc32c
from kafkasource.kafka.records.compression import MAX_SECTION_BYTES, Arena, RecordBatchTooLarge, decompress_section
from kafkasource.kafka.records.transactions import AbortedTransactions, is_abort_marker

_MAX_OFFSET = (1 << 63) - 1


@dataclass
class BatchWalk:
    """After `run`, `sections` are the records to fill from, in `data` or in `arena`, and `pos` the bytes used."""

    data: memoryview
    topic: str
    partition: int
    start_offset: int  # inclusive
    end_offset: int  # exclusive
    check_crc: bool
    max_decompressed_bytes: int
    arena: Arena
    aborted: AbortedTransactions

    sections: kernel.Sections = field(init=False)
    required_bytes: int | None = None
    limited: bool = False
    next_offset: int = field(init=False)

    @property
    def pos(self) -> int:
        return int(self.sections.pos)

    def run(self) -> None:
        data = self.data
        batches, _ = kernel.survey(data)
        self.sections = kernel.Sections(batches)
        in_kernel: bool = kernel.CRC32C
        self.sections.scan(data, self.start_offset, self.end_offset, self.check_crc and in_kernel)
        if self.check_crc and not in_kernel:
            self._check_crcs()
        for section in self.sections.special():
            if not self._take(section):
                self.sections.truncate(section)
                self.limited = True
                break
        self.next_offset = max(self.start_offset, self.sections.next_offset)
        if self.limited:
            return
        if self._rest_is_behind():
            self.next_offset = max(self.next_offset, self.end_offset)
        else:
            self._say_why_it_ends()

    def where(self, base_offset: int) -> str:
        return f"{self.topic}-{self.partition}, record batch at offset {base_offset}"

    def _rest_is_behind(self) -> bool:
        """Does nothing of the range come any more? Then nobody asks whether the rest is whole and right."""
        if self.sections.next_offset >= self.end_offset:
            return True
        data, pos = self.data, self.pos
        if len(data) - pos <= h.MAGIC_POS or data[pos + h.MAGIC_POS] != 2:  # a message may hold offsets below its own
            return False
        base_offset, _ = h.PREFIX.unpack_from(data, pos)
        return bool(self.end_offset <= base_offset < _MAX_OFFSET)

    def _check_crcs(self) -> None:
        """Check the CRCs, for a kernel that cannot. Keeps the batches before the first wrong one."""
        for section in range(self.sections.count):
            pos, end, *_ = self.sections.batch(section)
            if self._crc32c(pos, end) != self._stored_crc(pos):
                self.sections.truncate(section)
                return

    def _crc32c(self, pos: int, end: int) -> int:
        return crc32c(self.data[pos + h.ATTRIBUTES_POS : end])

    def _stored_crc(self, pos: int) -> int:
        return int.from_bytes(self.data[pos + h.CRC_POS : pos + h.CRC_POS + 4], "big")

    def _take(self, section: int) -> bool:
        """Decompress the batch, or skip it if it is a control batch or of an aborted transaction. False: the limit is
        reached."""
        pos, end, wanted, base_offset, attributes = self.sections.batch(section)
        if attributes & (h.TRANSACTIONAL | h.CONTROL):
            fields = h.HEADER.unpack_from(self.data, pos)
            last_delta, producer_id = fields[6], fields[9]
            self.aborted.advance(base_offset + last_delta + 1)
            if attributes & h.CONTROL:
                if self.aborted.hides(producer_id) and self._aborts(attributes, base_offset, pos, end):
                    self.aborted.end(producer_id)
                wanted = 0
            elif self.aborted.hides(producer_id):
                wanted = 0
        codec = attributes & h.CODEC_MASK
        if not wanted:
            self.sections.skip(section)
        elif codec:
            try:
                found = self._decompress(codec, base_offset, pos, end)
            except RecordBatchTooLarge:
                if any(self.sections.batch(before)[2] for before in range(section)):
                    return False
                raise
            if not self.sections.replace(section, *found):
                self._corrupt(base_offset, f"{wanted} records in {found[1] - found[0]} bytes")
        return True

    def _aborts(self, attributes: int, base_offset: int, pos: int, end: int) -> bool:
        """Is this control batch an abort marker? An empty one (compacted away) ends nothing."""
        records = self.data[pos + h.HEADER_BYTES : end]
        if not records:
            return False
        codec = attributes & h.CODEC_MASK
        if codec:
            used = self.arena.used
            start, stop = self._decompress(codec, base_offset, pos, end)
            self.arena.used = used
            records = self.arena.view()[start:stop]
        aborts = is_abort_marker(records)
        if aborts is None:
            self._corrupt(base_offset, "a control record without its key")
        return aborts

    def _decompress(self, codec: int, base_offset: int, pos: int, end: int) -> tuple[int, int]:
        """Its [start, end) in the arena. Raises RecordBatchTooLarge if it does not fit beside earlier batches."""
        used = self.arena.used
        limit = min(self.max_decompressed_bytes, self.arena.piece_bytes if used else MAX_SECTION_BYTES) - used
        section = self.data[pos + h.HEADER_BYTES : end]
        return decompress_section(self.arena, codec, section, limit, self.where(base_offset))

    def _say_why_it_ends(self) -> None:
        """The kernel took no batch at `pos`: it is cut, or there is none. Otherwise raises what is wrong with it."""
        data, pos, expected = self.data, self.pos, self.sections.next_offset
        rest = len(data) - pos
        if message_set.begins(data, pos):
            self.limited = True  # a call that continues behind `pos` reads them
            return
        if rest > h.MAGIC_POS and data[pos + h.MAGIC_POS] != 2:
            self._corrupt(h.PREFIX.unpack_from(data, pos)[0], f"magic is {data[pos + h.MAGIC_POS]}, not 2")
        if rest < h.PREFIX_BYTES:
            self._cut(h.HEADER_BYTES)
            return
        base_offset, length = h.PREFIX.unpack_from(data, pos)
        # If the magic was cut, too, it may be a message.
        if length < (h.MIN_BATCH_LENGTH if rest > h.MAGIC_POS else message_set.LEAST_SIZES[0]):
            self._corrupt(base_offset, f"a batch length of {length} bytes")
        if length > rest - h.PREFIX_BYTES:
            self._cut(h.PREFIX_BYTES + length)
            return
        fields = h.HEADER.unpack_from(data, pos)
        last_delta, count = fields[6], fields[12]
        if self.check_crc:
            actual = self._crc32c(pos, pos + h.PREFIX_BYTES + length)
            if actual != fields[4]:
                self._corrupt(base_offset, f"CRC32C is {actual:#010x}, the header says {fields[4]:#010x}")
        if base_offset < expected or last_delta < 0 or base_offset > _MAX_OFFSET - last_delta - 1:
            self._corrupt(base_offset, f"base offset {base_offset} (+{last_delta}) where {expected} or more was due")
        section_bytes = length - h.MIN_BATCH_LENGTH
        self._corrupt(base_offset, f"{count} records in {section_bytes} bytes, last offset delta {last_delta}")

    def _cut(self, required_bytes: int) -> None:
        if self.pos == 0 and len(self.data):
            self.required_bytes = required_bytes

    def _corrupt(self, base_offset: int, problem: str) -> NoReturn:
        raise CorruptRecordBatch(f"{self.where(base_offset)}: {problem}")
