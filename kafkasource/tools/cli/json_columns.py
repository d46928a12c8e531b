"""JSON as values of typed columns: `pykafka write --value-format`. The other way of `json_values`, with its forms.

A member that is missing is null; one that the type does not have is an error. An error begins with the place: `$` is
the value, `.name` a member, `[]` an element, `{}` a value of a map.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import TYPE_CHECKING

from kafkasource.options.spelling import nearest

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_DURATION = re.compile(r"(-?)(\d{1,13})\.(\d{6})s")


def value_of(text: bytes, kind: pa.DataType) -> object:
    """A line, or a part of one, as `pyarrow.array` takes it. A column of texts has the text as it is. ValueError."""
    import pyarrow as pa

    if kind == pa.string():
        return text.decode()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"$: not JSON: {error}") from None
    return _value(found, kind, "$")


def _value(found: object, kind: pa.DataType, place: str) -> object:
    import pyarrow.types as types

    if found is None:
        return None
    if types.is_struct(kind):
        return _struct(found, kind, place)
    if types.is_list(kind):
        elements = _expected(found, list, "an array", place)
        return [_value(each, kind.value_type, f"{place}[]") for each in elements]  # type: ignore[attr-defined]
    if types.is_map(kind):
        members = _expected(found, dict, "an object", place)
        pairs = members.items()  # type: ignore[attr-defined]
        return [
            (_key(name, kind.key_type, place), _value(each, kind.item_type, f"{place}{{}}")) for name, each in pairs
        ]
    return _scalar(found, kind, place)


def _struct(found: object, kind: pa.DataType, place: str) -> object:
    members: dict[str, object] = _expected(found, dict, "an object", place)  # type: ignore[assignment]
    types = {kind.field(number).name: kind.field(number).type for number in range(kind.num_fields)}
    for name in members:
        if name not in types:
            near = nearest(name, list(types))
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(list(types)[:20])}"
            raise ValueError(f"{place}: the schema has no field {name!r}; {hint}")
    return {name: _value(members.get(name), each, f"{place}.{name}") for name, each in types.items()}


def _key(name: str, kind: pa.DataType, place: str) -> object:
    """A map's key, which in JSON is always a text."""
    import pyarrow.types as types

    if types.is_string(kind):
        return name
    try:
        return _scalar(json.loads(name), kind, f"{place}{{}}")
    except ValueError:
        raise ValueError(f"{place}: the key {name[:60]!r} is not of type {kind}") from None


def _scalar(found: object, kind: pa.DataType, place: str) -> object:
    import pyarrow.types as types

    if types.is_boolean(kind):
        return _expected(found, bool, "true or false", place)
    if types.is_integer(kind):
        most = 1 << (kind.bit_width - 1)
        if type(found) is not int or not -most <= found < most:
            raise _wrong(found, f"a whole number of {kind.bit_width} bits", place)
        return found
    if types.is_floating(kind):
        special = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
        if isinstance(found, str) and found in special:
            return special[found]
        return float(_expected(found, (int, float), "a number", place))  # type: ignore[arg-type]
    if types.is_timestamp(kind) and type(found) is int and abs(found) < 1 << 63:  # `json_values` has far years so
        return found
    text = _expected(found, str, "a text", place)
    assert isinstance(text, str)
    if types.is_string(kind):
        return text
    for is_kind, parse, wanted in _kinds():
        if is_kind(kind):
            try:
                return parse(text, kind)
            except (ValueError, InvalidOperation, OverflowError):
                raise _wrong(found, wanted, place) from None
    raise ValueError(f"{place}: lines of JSON have no form for a column of {kind}")


def _moment(text: str, kind: pa.DataType) -> int:
    """Microseconds. With a zone where the column has one."""
    at = datetime.fromisoformat(text.removesuffix("Z") + ("+00:00" if text.endswith("Z") else ""))
    if (at.tzinfo is None) != (kind.tz is None):
        raise ValueError(text)
    return (at.replace(tzinfo=at.tzinfo or timezone.utc) - _EPOCH) // timedelta(microseconds=1)


def _decimal(text: str, kind: pa.DataType) -> Decimal:
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or -exponent > kind.scale or len(digits) + exponent > kind.precision - kind.scale:
        raise ValueError(text)
    return number


def _duration(text: str, _: pa.DataType) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    micros = int(match[2]) * 1_000_000 + int(match[3])
    return -micros if match[1] else micros


def _bytes(text: str, _: pa.DataType) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(text) from None


@cache
def _kinds() -> list[tuple[Callable[[pa.DataType], bool], Callable[[str, pa.DataType], object], str]]:
    import pyarrow.types as types

    return [
        (types.is_timestamp, _moment, "a time such as 2026-11-21T22:30:05.250000Z (without Z where it has no zone)"),
        (types.is_date, lambda text, _: date.fromisoformat(text), "a date such as 2026-11-21"),
        (types.is_decimal, _decimal, "a number as a text, with no more digits than its type has"),
        (types.is_duration, _duration, "a duration such as 1.500000s"),
        (types.is_binary, _bytes, "bytes as base64"),
    ]


def _expected(found: object, kind: type | tuple[type, ...], wanted: str, place: str) -> object:
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
        raise _wrong(found, wanted, place)
    return found


def _wrong(found: object, wanted: str, place: str) -> ValueError:
    return ValueError(f"{place}: expected {wanted}, got {json.dumps(found, ensure_ascii=False)[:80]}")
