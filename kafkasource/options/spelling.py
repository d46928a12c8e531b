"""Words for people: the known name that a misspelt one most likely stands for; counted nouns, sizes, lag."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(written: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar, in any case, as it is spelt there. None: no name is similar."""
    import difflib  # takes time, and most processes name no nearest one

    by_lower = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(written.lower(), by_lower, n=1)
    return by_lower[matches[0]] if matches else None


def did_you_mean(written: str, known: Iterable[str]) -> str:
    """` (did you mean 'events'?)`, to stand behind the name in an error; empty where no name is similar."""
    name = nearest(written, known)
    return "" if name is None else f" (did you mean {name!r}?)"


def many(count: int, noun: str) -> str:
    """`1 record`, `1,200 records`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """A number of bytes: `955 B`, `1.2 MiB`, `340 GiB`. As common.js has it on the pages."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    number = float(count)
    while number >= 1024 and len(units) > 1:
        number /= 1024
        del units[0]
    return f"{number:.{1 if number < 10 and units[0] != 'B' else 0}f} {units[0]}"


def lag_in_words(lag: int, behind: int, partitions: int, unknown: int = 0) -> str:
    """`lag 1,200 in 2 of 5 partitions`, `no lag in 5 partitions`. `unknown`: of how many partitions it is not known."""
    if behind:
        return f"lag {lag:,} in {behind} of {many(partitions, 'partition')}"
    if unknown == partitions:
        return "lag not known" if partitions else "no partitions"
    return f"no lag in {many(partitions - unknown, 'partition')}"
