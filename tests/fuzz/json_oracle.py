"""What becomes of a JSON record, by Python's `json` and by rules that are written here once more: values or BAD.

Nothing of the package is used. Times are microseconds or days, floating point numbers their bits, a text that stands
for another value is `Text`, which is equal to each JSON of that value.
"""

from __future__ import annotations

import base64
import ctypes
import datetime as dt
import json
import re
import struct
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

MOST_DEPTH = 1000
EPOCH = dt.datetime(1970, 1, 1)
TIME = re.compile(
    r"([+-]?\d{4,7}-\d\d-\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z|z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
WORDS = {
    "NaN": float("nan"), "Infinity": float("inf"), "+Infinity": float("inf"), "-Infinity": float("-inf"),
    "INF": float("inf"), "+INF": float("inf"), "-INF": float("-inf"),
}  # fmt: skip
_WIDE = Context(prec=200)
_STRTOF = ctypes.CDLL(None).strtof
_STRTOF.restype = ctypes.c_float
_STRTOF.argtypes = [ctypes.c_char_p, ctypes.c_void_p]


class Bad(Exception):
    pass


class Number(str):
    """As it is written."""


class Object(list[tuple[str, Any]]):
    pass


@dataclass(frozen=True)
class Text:
    """The JSON of a value."""

    value: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and parsed(other) == parsed(self.value)


def expected(kind: pa.DataType, record: bytes) -> Any:
    """The record's value. Raises Bad."""
    if record[:1] == b"\0":
        size = 9 if record[1:5] == bytes(4) else 5
        if len(record) < size:
            raise Bad
        record = record[size:]
    try:
        text = record.decode()
    except UnicodeDecodeError:
        raise Bad from None
    return converted(pa.field("", kind, False), parsed(text), text)


def rescued(kind: pa.DataType, record: bytes) -> Any:
    """The members of a good record that no column takes whole; None: there are none."""
    if record[:1] == b"\0":
        record = record[9 if record[1:5] == bytes(4) else 5 :]
    members = parsed(record.decode())
    names = {each.name: each.type for each in kind}
    return Object([(name, value) for name, value in members if name not in names or _lacks(names[name], value)]) or None


def _lacks(kind: pa.DataType, value: Any) -> bool:
    if pa.types.is_struct(kind) and isinstance(value, Object):
        names = {each.name: each.type for each in kind}
        return any(name not in names or _lacks(names[name], within) for name, within in value)
    if pa.types.is_map(kind) and isinstance(value, Object):
        return any(_lacks(kind.item_type, within) for _, within in value)
    return pa.types.is_list(kind) and isinstance(value, list) and any(_lacks(kind.value_type, each) for each in value)


def parsed(text: str) -> Any:
    if depth_of(text) > MOST_DEPTH:
        raise Bad
    try:
        found = json.loads(text, object_pairs_hook=Object, parse_int=Number, parse_float=Number, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Bad from None
    _check_text(found)
    return found


def depth_of(text: str) -> int:
    depth = most = 0
    for sign in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.DOTALL):
        depth += (sign in "[{") - (sign in "]}")
        most = max(most, depth)
    return most


def _refuse(text: str) -> None:
    raise ValueError(text)


def _check_text(value: Any) -> None:
    """Halves of surrogate pairs are text for Python, and for nobody else."""
    if isinstance(value, str) and any(0xD800 <= ord(each) <= 0xDFFF for each in value):
        raise Bad
    if isinstance(value, list):
        for each in value:
            for part in each if isinstance(each, tuple) else (each,):
                _check_text(part)


def converted(field: pa.Field, value: Any, whole: str) -> Any:
    kind = field.type
    if value is None:
        if not field.nullable:
            raise Bad
        return None
    if pa.types.is_struct(kind):
        return _struct(kind, value, whole)
    if pa.types.is_map(kind):
        if not isinstance(value, Object):
            raise Bad
        return [(name, converted(kind.item_field, each, whole)) for name, each in value]
    if pa.types.is_list(kind):
        if not isinstance(value, list) or isinstance(value, Object):
            raise Bad
        return [converted(kind.value_field, each, whole) for each in value]
    if kind == pa.string():
        is_text = isinstance(value, str) and not isinstance(value, Number)
        return value if is_text else Text(written(value))
    return _of_fixed_width(kind, value)


def _of_fixed_width(kind: pa.DataType, value: Any) -> Any:
    if isinstance(value, bool) and kind == pa.bool_():
        return value
    if isinstance(value, bool) or kind == pa.bool_() or not isinstance(value, str):
        raise Bad
    return _number(kind, value) if isinstance(value, Number) else _quoted(kind, value)


def _struct(kind: pa.StructType, value: Any, whole: str) -> dict[str, Any]:
    if not isinstance(value, Object):
        raise Bad
    found: dict[str, Any] = {each.name: None for each in kind}
    there = set()
    for name, each in value:
        if name in found:
            found[name] = converted(kind.field(name), each, whole)
            there.add(name)
    if any(not each.nullable and each.name not in there for each in kind):
        raise Bad
    return found


def written(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, Object):
        return "{" + ",".join(f"{json.dumps(name)}:{written(each)}" for name, each in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value)


def _number(kind: pa.DataType, text: str) -> Any:
    if kind == pa.float64():
        return _finite("=d", float(text))
    if kind == pa.float32():
        return _finite("=f", _STRTOF(text.encode(), None))
    if not re.search("[1-9]", re.split("[eE]", text)[0]):
        text = "0"
    try:
        exact = Decimal(text)
    except InvalidOperation:  # an exponent that has no end
        raise Bad from None
    if exact and not -60 < exact.adjusted() < 60:
        raise Bad
    if pa.types.is_decimal(kind):
        whole = exact.scaleb(kind.scale, _WIDE)
        if whole != whole.to_integral_value() or whole.copy_abs() >= 10**kind.precision:
            raise Bad
        return exact
    if not pa.types.is_integer(kind):
        raise Bad
    limit = 1 << (kind.bit_width - 1)
    if exact != exact.to_integral_value() or not -limit <= exact < limit:
        raise Bad
    return int(exact)


def _finite(form: str, value: float) -> bytes:
    if value in (float("inf"), float("-inf")):
        raise Bad
    return struct.pack(form, value)


def _quoted(kind: pa.DataType, text: str) -> Any:
    if kind in (pa.float64(), pa.float32()):
        if text not in WORDS:
            raise Bad
        return struct.pack("=d" if kind == pa.float64() else "=f", WORDS[text])
    if pa.types.is_decimal(kind):
        if not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", text, re.ASCII):
            raise Bad
        return _number(kind, text)
    if kind == pa.binary():
        try:
            found = base64.b64decode(text.encode(), validate=True)
        except ValueError:
            raise Bad from None
        if base64.b64encode(found).decode() != text:
            raise Bad
        return found
    return _time(kind, text)


def _time(kind: pa.DataType, text: str) -> int:
    found = TIME.fullmatch(text)
    if found is None or pa.types.is_integer(kind):
        raise Bad
    date, hour, minute, second, part, zone = found.groups()
    days = _days(date)
    if kind == pa.date32():
        if text != date:
            raise Bad
        return _within(32, days)
    if len(date.lstrip("+-")) > len("999999-12-31"):
        raise Bad
    if (zone is not None) != (kind.tz is not None) or (kind.tz is not None and hour is None):
        raise Bad
    hours, minutes, seconds = (int(each or 0) for each in (hour, minute, second))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise Bad
    moment = ((days * 24 + hours) * 60 + minutes - _offset(zone or "Z")) * 60 + seconds
    return _within(64, moment * 1_000_000 + int(((part or "") + "000000")[:6]))


def _days(date: str) -> int:
    """Since 1970, of years that Python's dates do not have, too: 400 of them have 146,097 days."""
    year, month, day = date[1:].split("-")
    whole = int(date[0] + year)
    try:
        there = dt.date(2000 + whole % 400, int(month), int(day))
    except ValueError:
        raise Bad from None
    return (there - EPOCH.date()).days + (whole - there.year) // 400 * 146_097


def _within(bits: int, number: int) -> int:
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise Bad
    return number


def _offset(zone: str) -> int:
    """Minutes."""
    if zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        raise Bad
    return (1 if zone[0] == "+" else -1) * (hours * 60 + minutes)


def plain(array: pa.Array) -> list[Any]:
    """The values of a column as `expected` gives them."""
    kind, there = array.type, array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        children = [plain(each) for each in array.flatten()]
        names = [each.name for each in kind]
        rows = zip(*children, strict=True)
        return [dict(zip(names, row, strict=True)) if valid else None for valid, row in zip(there, rows, strict=True)]
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        items: list[Any] = plain(array.values) if pa.types.is_list(kind) else []
        if pa.types.is_map(kind):
            items = list(zip(plain(array.keys), plain(array.items), strict=True))
        ends = array.offsets.to_pylist()
        return [items[ends[row] : ends[row + 1]] if valid else None for row, valid in enumerate(there)]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return array.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_floating(kind):
        form = "=d" if kind == pa.float64() else "=f"
        return [None if each is None else struct.pack(form, each) for each in array.to_pylist()]
    return array.to_pylist()  # type: ignore[no-any-return]
