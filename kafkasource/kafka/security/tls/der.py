"""DER, the byte format of certificates, keys and PKCS12 stores, as far as this package reads it.

A peer's certificate comes from the wire before anybody has checked it. So every length is checked against the bytes
that are present, and bad bytes raise `MalformedDer`, nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

BOOLEAN, INTEGER, OCTET_STRING, OBJECT_IDENTIFIER = 0x01, 0x02, 0x04, 0x06
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18
SEQUENCE, SET = 0x30, 0x31

_MOST_LENGTH_BYTES = 4


class MalformedDer(ValueError):
    """The bytes are no DER, or not of the structure that the reader expects."""


class Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes  # with tag and length

    def expect(self, tag: int) -> bytes:
        """The content of an element that must have this tag. Raises MalformedDer."""
        if self.tag != tag:
            raise MalformedDer(f"expected the tag 0x{tag:02x}, found 0x{self.tag:02x}")
        return self.content


def elements(data: bytes) -> list[Element]:
    """The elements that lie one behind the other in `data`, to its end. Raises MalformedDer."""
    parsed = []
    pos = 0
    while pos < len(data):
        element = _element(data, pos)
        parsed.append(element)
        pos += len(element.whole)
    return parsed


def sequence(data: bytes, at_least: int = 0) -> list[Element]:
    """Return the elements of the sequence that fills `data`. Raises MalformedDer, also for fewer than `at_least`."""
    outer = elements(data)
    if len(outer) != 1:
        raise MalformedDer(f"expected one sequence, found {len(outer)} elements")
    inner = elements(outer[0].expect(SEQUENCE))
    if len(inner) < at_least:
        raise MalformedDer(f"expected a sequence of at least {at_least} elements, found {len(inner)}")
    return inner


def object_identifier(content: bytes) -> str:
    """The dotted form, as 2.5.4.3. Raises MalformedDer."""
    if not content or content[-1] & 0x80:
        raise MalformedDer("an object identifier is cut short")
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if value.bit_length() > 128:
            raise MalformedDer("an object identifier has a huge component")
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _element(data: bytes, start: int) -> Element:
    if len(data) - start < 2:
        raise MalformedDer("an element is cut short")
    tag, length, pos = data[start], data[start + 1], start + 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= _MOST_LENGTH_BYTES or pos + count > len(data):
            raise MalformedDer("an element has an unreadable length")
        length = int.from_bytes(data[pos : pos + count], "big")
        pos += count
    if length > len(data) - pos:
        raise MalformedDer(f"an element claims {length} bytes, {len(data) - pos} are left")
    return Element(tag, data[pos : pos + length], data[start : pos + length])
