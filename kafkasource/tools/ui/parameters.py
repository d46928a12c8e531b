"""Checks the parameters of a request: names, numbers, places in logs. Errors are `RequestRefused` with status 400."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from kafkasource.source.plan.positions import Position
from kafkasource.tools.admin.positions import position
from kafkasource.tools.web.handler import RequestRefused


def required(given: Mapping[str, str], name: str) -> str:
    if not given.get(name):
        raise RequestRefused(400, f"{name}: it is missing")
    return given[name]


def whole_number(given: Mapping[str, str], name: str, default: int, most: int, least: int = 1) -> int:
    text = given.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and least <= int(text) <= most):
        raise RequestRefused(400, f"{name}: {text[:40]!r} is not a number from {least:,} to {most:,}")
    return int(text)


def partition_numbers(given: Mapping[str, str], name: str) -> tuple[int, ...]:
    """Empty: all. As the page sends them: `0,2`."""
    text = given.get(name, "")
    try:
        return tuple(int(number) for number in text.split(",")) if text.strip() else ()
    except ValueError:
        raise RequestRefused(400, f"{name}: {text[:40]!r} is not N,N,...") from None


def place(text: str, name: str = "from") -> Position:
    try:
        return position(text)
    except (argparse.ArgumentTypeError, OverflowError) as error:
        raise RequestRefused(400, f"{name}: {error}") from None


def cursor(given: Mapping[str, str], name: str) -> dict[int, int] | None:
    """Offsets by partition: `0:15,2:7`. None: there is none."""
    text = given.get(name, "")
    if not text:
        return None
    try:
        pairs = (pair.split(":") for pair in text.split(","))
        return {int(partition): int(offset) for partition, offset in pairs}
    except ValueError:
        raise RequestRefused(400, f"{name}: {text[:40]!r} is not PARTITION:OFFSET,...") from None
