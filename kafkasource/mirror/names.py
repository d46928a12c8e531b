"""Computes with sets of topic names that regular expressions describe. Is there a name that is in all of them? Pure.

It uses derivatives (Brzozowski 1964). The derivative of a set by a letter is the set of texts that may follow that
letter. A regular expression has finitely many derivatives, also with "and" and "not", so the search for a name that is
in some sets and not in others ends. A set is known by its number in one table, and equal sets have one number.
"""

from __future__ import annotations

import importlib
import string
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from kafkasource.options.java_regex import compile_java

LETTERS = frozenset(string.ascii_letters + string.digits + "._-")  # the characters of topic names
NOTHING, EMPTY, ALL = 0, 1, 2  # no text; the empty text alone; every text
UNDECIDED = "..."  # stands for a name: the search reached its limit before it found one

_MOST_STATES = 20_000  # a search through so many takes some tenths of a second
_MOST_AFTER = 100  # sets that `after_some` puts together
_MOST_REPEATS = 260  # a name has 249 letters at most
_Set: TypeAlias = tuple[Any, ...]  # its kind, then its parts
_Argument: TypeAlias = Any  # what belongs to an item; its type depends on the item's kind
_Item: TypeAlias = tuple[object, _Argument]  # a part of an expression, as Python's parser gives it

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_CLASSES = {
    "CATEGORY_DIGIT": frozenset(string.digits),
    "CATEGORY_WORD": frozenset(string.ascii_letters + string.digits + "_"),
    "CATEGORY_SPACE": frozenset(),
}

Part = tuple[int, str]
"""A set and a suffix. It stands for the names that are in the set once the suffix is appended."""


class NotUnderstood(ValueError):
    """The expression has a part that this module cannot turn into a set, for instance a back reference."""


class Names:
    """The table of sets. For one thread."""

    def __init__(self) -> None:
        self._sets: list[_Set] = []
        self._numbers: dict[_Set, int] = {}
        self._has_empty: list[bool] = []
        self._after: dict[tuple[int, str], int] = {}
        self._alike: list[str] | None = None  # one letter of each class of letters that no set tells apart
        self._found: dict[object, str | None] = {}
        self._number(("letters", frozenset()), False)
        self._number(("many", NOTHING), True)
        self._number(("not", NOTHING), True)

    # From expressions.

    def matching(self, pattern: str) -> int:
        """The names in which a Java pattern is found. Raises NotUnderstood."""
        compiled = compile_java(pattern)
        try:
            items = list(_parser.parse(compiled.pattern, compiled.flags & ~32))  # 32: re.UNICODE; the parser sets it
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
        """The texts made of any number of texts of this set, none included."""
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
        """All texts that are not in the set."""
        kind, *inner = self._sets[of]
        return int(inner[0]) if kind == "not" else self._number(("not", of), not self._has_empty[of])

    def after(self, of: int, text: str) -> int:
        """The set of texts that may follow `text` in this set (its derivative)."""
        for letter in text:
            key = of, letter
            following = self._after.get(key)
            if following is None:
                following = self._after[key] = self._after_letter(of, letter)
            of = following
        return of

    def after_some(self, of: int, texts: Iterable[str]) -> int:
        """What may follow in this set after none, one or several of the texts, in any order; maybe more names."""
        several = list(texts)
        found: set[int] = set()
        todo = [of]
        while todo:
            one = todo.pop()
            if one not in found:
                found.add(one)
                todo += [self.after(one, text) for text in several]
            if len(found) > _MOST_AFTER:
                return ALL
        return self.either(*found)

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
        """A shortest name that is in all parts of `within`, and for each group of `outside` not in all its parts.

        None: there is no such name. UNDECIDED: the search reached its limit, and there may be one.
        """
        key = frozenset(within), frozenset(frozenset(each) for each in outside)
        if any(each <= key[0] for each in key[1]):
            return None  # whatever is in all parts of a group is in all of fewer parts
        if key not in self._found:
            self._found[key] = self._search(list(key[0]), [list(each) for each in key[1]])
        return self._found[key]

    def _search(self, within: Sequence[Part], outside: Sequence[Sequence[Part]]) -> str | None:
        groups = [within, *outside]
        suffixes = [[suffix for _, suffix in group] for group in groups]
        start = tuple(tuple(number for number, _ in group) for group in groups)
        seen: set[tuple[tuple[int, ...], ...]] = set()  # without the start: a name has at least one letter
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
            distinguished = [parts[1] for parts in self._sets if parts[0] == "letters"]
            kinds: dict[tuple[bool, ...], str] = {}
            for letter in sorted(LETTERS, key=lambda one: (not one.islower(), one in "-._", one)):
                kinds.setdefault(tuple(letter in some for some in distinguished), letter)
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
    """Makes a set from an expression that Python's parser has parsed. `rest` is the set of what follows in the name."""

    def __init__(self, names: Names, any_case: bool) -> None:
        self._names = names
        self._any_case = any_case

    def found_in(self, items: Sequence[_Item]) -> int:
        if items and str(items[0][0]) == "AT":
            return self._read(items, ALL, first=True)
        return self._names.then(ALL, self._read(items, ALL, first=False))

    def _read(self, items: Sequence[_Item], rest: int, *, first: bool) -> int:
        """The set of the items followed by `rest`. `first`: the items begin at the start of the name."""
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
    """Does an item depend on what comes before or after it?"""
    for op, value in items:
        kind = str(op)
        if kind in ("AT", "ASSERT", "ASSERT_NOT"):
            return True
        if kind == "BRANCH" and any(map(_looks_around, value[1])):
            return True
        if kind in ("SUBPATTERN", "MAX_REPEAT", "MIN_REPEAT") and _looks_around(value[-1]):
            return True
    return False
