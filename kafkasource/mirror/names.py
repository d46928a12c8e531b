"""Sets of topic names, as regular expressions describe them, to compute with: is there a name in all of these? Pure.

By derivatives (Brzozowski 1964): what is left of a set of names after a first letter is a set again, of which a regular
expression has finitely many, also with "and" and "not". So the search for a name that is in some sets and not in others
ends. Sets are numbers: places in one table, where the same set is not written twice.
"""

from __future__ import annotations

import importlib
import string
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from kafkasource.options.java_regex import compile_java

LETTERS = frozenset(string.ascii_letters + string.digits + "._-")  # that a topic's name may have
NOTHING, EMPTY, ALL = 0, 1, 2  # no name; the empty text alone; every text
UNDECIDED = "..."  # for a name that was not found in the time given

_MOST_STATES = 20_000  # of a search: some tenths of a second
_MOST_REPEATS = 260  # a name has 249 letters at most
_Set: TypeAlias = tuple[Any, ...]  # its kind and its parts
_Argument: TypeAlias = Any  # of an item, by its kind
_Item: TypeAlias = tuple[object, _Argument]  # of an expression that Python's parser took apart

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_CLASSES = {
    "CATEGORY_DIGIT": frozenset(string.digits),
    "CATEGORY_WORD": frozenset(string.ascii_letters + string.digits + "_"),
    "CATEGORY_SPACE": frozenset(),
}

Part = tuple[int, str]
"""A set and a text: the names that are in the set when the text is written behind them."""


class NotUnderstood(ValueError):
    """The expression has something that no set can be made of here, as a back reference."""


class Names:
    """The table of sets. Not for several threads."""

    def __init__(self) -> None:
        self._sets: list[_Set] = []
        self._numbers: dict[_Set, int] = {}
        self._has_empty: list[bool] = []
        self._after: dict[tuple[int, str], int] = {}
        self._alike: list[str] | None = None  # one letter for each kind that the sets tell apart
        self._found: dict[object, str | None] = {}
        self._number(("letters", frozenset()), False)
        self._number(("many", NOTHING), True)
        self._number(("not", NOTHING), True)

    # From expressions.

    def matching(self, pattern: str) -> int:
        """The names in which a Java pattern is found. Raises NotUnderstood."""
        compiled = compile_java(pattern)
        try:
            items = list(_parser.parse(compiled.pattern, compiled.flags & ~32))  # 32: of texts, which are not bytes
            return _Reading(self, bool(compiled.flags & 2)).found_in(items)
        except RecursionError:
            raise NotUnderstood(f"{pattern!r} is too deep") from None

    # Sets.

    def letters(self, some: Iterable[str]) -> int:
        found = frozenset(some) & LETTERS
        return self._number(("letters", found), False) if found else NOTHING

    def then(self, first: int, rest: int) -> int:
        if NOTHING in (first, rest):
            return NOTHING
        if first == EMPTY or (first == ALL and self._has_empty[rest]):
            return rest if first == EMPTY else ALL
        if rest == EMPTY:
            return first
        kind, *of = self._sets[first]
        if kind == "then":
            return self.then(of[0], self.then(of[1], rest))
        return self._number(("then", first, rest), self._has_empty[first] and self._has_empty[rest])

    def many(self, of: int) -> int:
        """So many as you like, or none."""
        if self._sets[of] == ("letters", LETTERS):
            return ALL
        if of in (NOTHING, EMPTY, ALL) or self._sets[of][0] == "many":
            return EMPTY if of in (NOTHING, EMPTY) else of
        return self._number(("many", of), True)

    def either(self, *sets: int) -> int:
        parts = self._flat("either", sets) - {NOTHING}
        if ALL in parts:
            return ALL
        if len(parts) <= 1:
            return parts.pop() if parts else NOTHING
        return self._number(("either", *sorted(parts)), any(self._has_empty[part] for part in parts))

    def both(self, *sets: int) -> int:
        parts = self._flat("both", sets) - {ALL}
        if NOTHING in parts:
            return NOTHING
        if len(parts) <= 1:
            return parts.pop() if parts else ALL
        return self._number(("both", *sorted(parts)), all(self._has_empty[part] for part in parts))

    def without(self, of: int) -> int:
        """All texts but these."""
        kind, *inner = self._sets[of]
        return int(inner[0]) if kind == "not" else self._number(("not", of), not self._has_empty[of])

    def after(self, of: int, text: str) -> int:
        """What may follow the text in this set."""
        for letter in text:
            key = of, letter
            following = self._after.get(key)
            if following is None:
                following = self._after[key] = self._after_letter(of, letter)
            of = following
        return of

    def _after_letter(self, of: int, letter: str) -> int:
        kind, *parts = self._sets[of]
        if kind == "letters":
            return EMPTY if letter in parts[0] else NOTHING
        if kind == "then":
            first = self.then(self.after(parts[0], letter), parts[1])
            return self.either(first, self.after(parts[1], letter)) if self._has_empty[parts[0]] else first
        if kind == "many":
            return self.then(self.after(parts[0], letter), of)
        if kind == "not":
            return self.without(self.after(parts[0], letter))
        return (self.either if kind == "either" else self.both)(*(self.after(part, letter) for part in parts))

    # Questions.

    def example(self, within: Iterable[Part], outside: Iterable[Iterable[Part]] = ()) -> str | None:
        """A shortest name that is in all parts `within` and in none of `outside`, each of which is parts that it would
        have to be in all. None: there is none; UNDECIDED: none was found, and there may be one."""
        key = frozenset(within), frozenset(frozenset(each) for each in outside)
        if key not in self._found:
            self._found[key] = self._search(list(key[0]), [list(each) for each in key[1]])
        return self._found[key]

    def _search(self, within: Sequence[Part], outside: Sequence[Sequence[Part]]) -> str | None:
        groups = [within, *outside]
        suffixes = [[suffix for _, suffix in group] for group in groups]
        start = tuple(tuple(number for number, _ in group) for group in groups)
        seen: set[tuple[tuple[int, ...], ...]] = set()  # not the start: a name has a letter
        todo = deque([(start, "")])
        while todo:
            state, name = todo.popleft()
            for letter in self._kinds():
                new = tuple(tuple(self.after(number, letter) for number in group) for group in state)
                if new in seen or NOTHING in new[0] or any(all(n == ALL for n in group) for group in new[1:]):
                    continue
                there = [
                    all(self._has_empty[self.after(*part)] for part in zip(group, suffix, strict=True))
                    for group, suffix in zip(new, suffixes, strict=True)
                ]
                if there[0] and not any(there[1:]):
                    return name + letter
                if len(seen) > _MOST_STATES:
                    return UNDECIDED
                seen.add(new)
                todo.append((new, name + letter))
        return None

    def _kinds(self) -> list[str]:
        if self._alike is None:
            told_apart = [parts[1] for parts in self._sets if parts[0] == "letters"]
            kinds: dict[tuple[bool, ...], str] = {}
            for letter in sorted(LETTERS, key=lambda one: (not one.islower(), one in "-._", one)):
                kinds.setdefault(tuple(letter in some for some in told_apart), letter)
            self._alike = list(kinds.values())
        return self._alike

    def _flat(self, kind: str, sets: Iterable[int]) -> set[int]:
        found = set()
        for one in sets:
            found |= set(self._sets[one][1:]) if self._sets[one][0] == kind else {one}
        return found

    def _number(self, one: _Set, has_empty: bool) -> int:
        number = self._numbers.get(one)
        if number is None:
            number = self._numbers[one] = len(self._sets)
            self._sets.append(one)
            self._has_empty.append(has_empty)
            if one[0] == "letters":
                self._alike = None
        return number


class _Reading:
    """An expression, as Python's parser took it apart, to a set. `rest` is what follows in the name, to its end."""

    def __init__(self, names: Names, any_case: bool) -> None:
        self._names = names
        self._any_case = any_case

    def found_in(self, items: Sequence[_Item]) -> int:
        if items and str(items[0][0]) == "AT":
            return self._read(items, ALL, first=True)
        return self._names.then(ALL, self._read(items, ALL, first=False))

    def _read(self, items: Sequence[_Item], rest: int, *, first: bool) -> int:
        """`first`: nothing of the name comes before."""
        if not items:
            return rest
        (op, value), names = items[0], self._names
        kind = str(op)
        if kind in ("AT", "ASSERT", "ASSERT_NOT"):
            return self._at_a_place(kind, value, self._read(items[1:], rest, first=first), first)
        rest = self._read(items[1:], rest, first=False)
        if kind == "SUBPATTERN":
            if value[1] or value[2]:
                raise NotUnderstood("flags within an expression")
            return self._read(list(value[3]), rest, first=first)
        if kind == "BRANCH":
            return names.either(*(self._read(list(each), rest, first=first) for each in value[1]))
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            return names.then(self._repeated(*value), rest)
        return names.then(self._letter(kind, value), rest)

    def _at_a_place(self, kind: str, value: _Argument, rest: int, first: bool) -> int:
        names = self._names
        if kind == "AT":
            if str(value) in ("AT_END", "AT_END_STRING"):
                return names.both(rest, EMPTY)
            if str(value) in ("AT_BEGINNING", "AT_BEGINNING_STRING") and first:
                return rest
            raise NotUnderstood(str(value))
        direction, inner = value
        if direction < 0:
            raise NotUnderstood("looking behind")
        ahead = self._read(list(inner), ALL, first=first)
        return names.both(rest, ahead if kind == "ASSERT" else names.without(ahead))

    def _repeated(self, least: int, most: _Argument, items: _Argument) -> int:
        names, bounded = self._names, most is not _parser.MAXREPEAT
        if _looks_around(items) or least > _MOST_REPEATS or (bounded and int(most) > _MOST_REPEATS):
            raise NotUnderstood("a repetition")
        one = self._read(list(items), EMPTY, first=False)
        found = EMPTY if bounded else names.many(one)
        for _ in range(int(most) - least if bounded else 0):
            found = names.either(EMPTY, names.then(one, found))
        for _ in range(least):
            found = names.then(one, found)
        return found

    def _letter(self, kind: str, value: _Argument) -> int:
        if kind == "ANY":
            return self._names.letters(LETTERS)
        if kind == "LITERAL":
            return self._names.letters(self._cases({chr(value)}))
        if kind == "NOT_LITERAL":
            return self._names.letters(LETTERS - self._cases({chr(value)}))
        if kind != "IN":
            raise NotUnderstood(kind)
        found: set[str] = set()
        for op, what in value:
            if str(op) == "LITERAL":
                found.add(chr(what))
            elif str(op) == "RANGE":
                found |= {letter for letter in LETTERS if what[0] <= ord(letter) <= what[1]}
            elif str(op) == "CATEGORY":
                of = str(what)
                found |= _CLASSES[of] if of in _CLASSES else LETTERS - _CLASSES[of.replace("_NOT_", "_")]
            elif str(op) != "NEGATE":
                raise NotUnderstood(str(op))
        found = self._cases(found)
        return self._names.letters(LETTERS - found if str(value[0][0]) == "NEGATE" else found)

    def _cases(self, some: set[str]) -> set[str]:
        return {case for letter in some for case in (letter.lower(), letter.upper())} if self._any_case else some


def _looks_around(items: _Argument) -> bool:
    """Is there something in it that depends on what comes before or behind?"""
    for op, value in items:
        kind = str(op)
        if kind in ("AT", "ASSERT", "ASSERT_NOT"):
            return True
        if kind == "BRANCH" and any(map(_looks_around, value[1])):
            return True
        if kind in ("SUBPATTERN", "MAX_REPEAT", "MIN_REPEAT") and _looks_around(value[-1]):
            return True
    return False
