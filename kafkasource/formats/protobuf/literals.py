"""Defaults of fields: from the words of `.proto` text, and from the text that FieldDescriptorProto has for them."""

from __future__ import annotations

from kafkasource.errors import SchemaError
from kafkasource.formats.protobuf.descriptors import INTEGERS, SCALARS, Default
from kafkasource.formats.protobuf.tokens import bytes_of, integer_of


def bounds_of(kind: str) -> tuple[int, int]:
    """The least and the most of an integer."""
    bits = 64 if kind.endswith("64") else 32
    if kind.startswith(("uint", "fixed")):
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def default_of(kind: str, text: str, place: str) -> Default:
    """`text`: as FieldDescriptorProto.default_value has it, or the same words in `.proto` text without their quotes."""
    if kind not in SCALARS:
        return text  # a value of an enum; `schema` looks for it
    if kind == "string":
        return text
    if kind == "bytes":
        return bytes_of(text, place)
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    digits = text.removeprefix("-")
    if kind in INTEGERS:
        value = integer_of(digits)
        least, most = bounds_of(kind)
        if value is not None and least <= (value if digits == text else -value) <= most:
            return value if digits == text else -value
    elif kind in ("double", "float"):
        number = _float_of(digits)
        if number is not None:
            return number if digits == text else -number
    raise SchemaError(f"{place}: {text!r} is not a value of type {kind}")


def _float_of(digits: str) -> float | None:
    whole = integer_of(digits)
    try:
        if whole is not None:
            return float(whole)
        if digits in ("inf", "nan") or digits[:1].isdigit() or digits[:1] == ".":
            return float(digits.removesuffix("f").removesuffix("F") if digits not in ("inf", "nan") else digits)
    except (ValueError, OverflowError):
        pass
    return None
