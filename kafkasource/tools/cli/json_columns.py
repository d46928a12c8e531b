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


def value_of(text: bytes, data_type: pa.DataType) -> object:
    """A line, or a part of one, as `pyarrow.array` takes it. A column of texts has the text as it is. ValueError."""
    import pyarrow as pa

    if data_type == pa.string():
        return text.decode()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"$: not JSON: {error}") from None
    return _value(document, data_type, "$")


def _value(document: object, data_type: pa.DataType, place: str) -> object:
    import pyarrow.types as types

    if document is None:
        return None
    if types.is_struct(data_type):
        return _struct(document, data_type, place)
    if types.is_list(data_type):
        elements = _expected(document, list, "an array", place)
        return [_value(element, data_type.value_type, f"{place}[]") for element in elements]  # type: ignore[attr-defined]
    if types.is_map(data_type):
        members = _expected(document, dict, "an object", place)
        pairs = members.items()  # type: ignore[attr-defined]
        return [
            (_key(name, data_type.key_type, place), _value(item, data_type.item_type, f"{place}{{}}"))
            for name, item in pairs
        ]
    return _scalar(document, data_type, place)


def _struct(document: object, data_type: pa.DataType, place: str) -> object:
    members: dict[str, object] = _expected(document, dict, "an object", place)  # type: ignore[assignment]
    types = {data_type.field(number).name: data_type.field(number).type for number in range(data_type.num_fields)}
    for name in members:
        if name not in types:
            near = nearest(name, list(types))
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(list(types)[:20])}"
            raise ValueError(f"{place}: the schema has no field {name!r}; {hint}")
    return {name: _value(members.get(name), field_type, f"{place}.{name}") for name, field_type in types.items()}


def _key(name: str, key_type: pa.DataType, place: str) -> object:
    """A map's key, which in JSON is always a text."""
    import pyarrow.types as types

    if types.is_string(key_type):
        return name
    try:
        return _scalar(json.loads(name), key_type, f"{place}{{}}")
    except ValueError:
        raise ValueError(f"{place}: the key {name[:60]!r} is not of type {key_type}") from None


def _scalar(document: object, data_type: pa.DataType, place: str) -> object:
    import pyarrow.types as types

    if types.is_boolean(data_type):
        return _expected(document, bool, "true or false", place)
    if types.is_integer(data_type):
        most = 1 << (data_type.bit_width - 1)
        if type(document) is not int or not -most <= document < most:
            raise _wrong(document, f"a whole number of {data_type.bit_width} bits", place)
        return document
    if types.is_floating(data_type):
        special = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
        if isinstance(document, str) and document in special:
            return special[document]
        return float(_expected(document, (int, float), "a number", place))  # type: ignore[arg-type]
    if (
        types.is_timestamp(data_type) and type(document) is int and abs(document) < 1 << 63
    ):  # `json_values` has far years so
        return document
    text = _expected(document, str, "a text", place)
    assert isinstance(text, str)
    if types.is_string(data_type):
        return text
    for is_kind, parse, wanted in _kinds():
        if is_kind(data_type):
            try:
                return parse(text, data_type)
            except (ValueError, InvalidOperation, OverflowError):
                raise _wrong(document, wanted, place) from None
    raise ValueError(f"{place}: lines of JSON have no form for a column of {data_type}")


def _moment(text: str, data_type: pa.DataType) -> int:
    """Microseconds. With a zone where the column has one."""
    at = datetime.fromisoformat(text.removesuffix("Z") + ("+00:00" if text.endswith("Z") else ""))
    if (at.tzinfo is None) != (data_type.tz is None):
        raise ValueError(text)
    return (at.replace(tzinfo=at.tzinfo or timezone.utc) - _EPOCH) // timedelta(microseconds=1)


def _decimal(text: str, data_type: pa.DataType) -> Decimal:
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    if (
        not isinstance(exponent, int)
        or -exponent > data_type.scale
        or len(digits) + exponent > data_type.precision - data_type.scale
    ):
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


def _expected(document: object, python_type: type | tuple[type, ...], wanted: str, place: str) -> object:
    if not isinstance(document, python_type) or (isinstance(document, bool) and python_type is not bool):
        raise _wrong(document, wanted, place)
    return document


def _wrong(document: object, wanted: str, place: str) -> ValueError:
    return ValueError(f"{place}: expected {wanted}, got {json.dumps(document, ensure_ascii=False)[:80]}")
