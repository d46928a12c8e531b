"""The private keys of a PKCS12 store (RFC 7292), counted: the package that reads such stores gives the first alone.

    PFX           version | authSafe: ContentInfo | MAC
    ContentInfo   type | [0] content: an OCTET STRING where the type is `data`
    authSafe      a sequence of ContentInfo; that of the type `data` holds a sequence of bags, others are encrypted
    bag           type | [0] value | set of attributes, each: type | set of values

keytool and OpenSSL encrypt each key in its bag and leave the bag itself open, so no password is needed to count them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkasource.kafka.security.tls.der import (
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    SET,
    Element,
    MalformedDer,
    elements,
    object_identifier,
    sequence,
)

_DATA = "1.2.840.113549.1.7.1"
_KEY_BAGS = ("1.2.840.113549.1.12.10.1.1", "1.2.840.113549.1.12.10.1.2")  # the second: encrypted
_FRIENDLY_NAME = "1.2.840.113549.1.9.20"
_NO_NAME = "without a name"


def key_names(data: bytes) -> tuple[str, ...]:
    """The name of each private key whose bag lies open; empty for a store of another structure."""
    try:
        return tuple(_name(bag) for bag in _open_bags(data) if _type(bag[0]) in _KEY_BAGS)
    except (MalformedDer, IndexError):
        return ()  # as one of indefinite length: who reads the whole store says what is wrong with it


def _open_bags(data: bytes) -> Iterator[list[Element]]:
    """The parts of each bag."""
    for safe in sequence(_octets(sequence(data, at_least=2)[1])):
        if _type(elements(safe.expect(SEQUENCE))[0]) == _DATA:
            for bag in sequence(_octets(safe)):
                yield elements(bag.expect(SEQUENCE))


def _octets(content_info: Element) -> bytes:
    explicit = elements(content_info.expect(SEQUENCE))[1]
    return elements(explicit.content)[0].expect(OCTET_STRING)


def _type(element: Element) -> str:
    return object_identifier(element.expect(OBJECT_IDENTIFIER))


def _name(bag: list[Element]) -> str:
    for attribute in elements(bag[2].expect(SET)) if len(bag) > 2 else ():
        kind, values = elements(attribute.expect(SEQUENCE))[:2]
        if _type(kind) == _FRIENDLY_NAME:
            return elements(values.expect(SET))[0].content.decode("utf-16-be", "replace")  # a BMPString
    return _NO_NAME
