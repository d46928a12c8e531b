"""Words for people: the known name that a misspelt one most likely stands for; counted nouns."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(written: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar, in any case, as it is spelt there. None: no name is similar."""
    import difflib  # takes time, and most processes name no nearest one

    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(written.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def did_you_mean(written: str, known: Iterable[str]) -> str:
    """` (did you mean 'events'?)`, to stand behind the name in an error; empty where no name is similar."""
    name = nearest(written, known)
    return "" if name is None else f" (did you mean {name!r}?)"


def many(count: int, noun: str) -> str:
    """`1 record`, `1,200 records`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
