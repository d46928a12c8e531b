"""Histories in which all is well, and a way to plant a fault in one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from lab.campaign.checker import Batch, Copy, Glimpse, History, Outcome, Record, Translation, Wait, Written

IN, OUT, MIRROR = "in", "out", "east.in"
KEYS = (b"a", b"b", b"c")
PARTITION_OF = {key: place % 2 for place, key in enumerate(KEYS)}
OUT_PARTITION_OF = {key: (place + 1) % 2 for place, key in enumerate(KEYS)}
HEADERS = (("h", b"1"),)


def good(outcomes, marker_after=(), batch_size=4):
    """A topic of two partitions, its atomic copy by key, and a mirror of it; for each record how its transaction ended.

    Each record of the mirror gets a transaction's marker behind it where its number is in `marker_after`: a hole.
    """
    written, source, ends = [], [], [0, 0]
    numbers = dict.fromkeys(KEYS, 0)
    for place, outcome in enumerate(outcomes):
        key = KEYS[place % len(KEYS)]
        partition, number = PARTITION_OF[key], numbers[key]
        numbers[key] += 1
        offset, ends[partition] = ends[partition], ends[partition] + 1
        value = b"%s-%d" % (key, number)
        known = None if outcome is Outcome.UNKNOWN else offset
        written.append(Written("p", key, number, value, IN, partition, known, outcome, HEADERS))
        if outcome is not Outcome.ABORTED:
            source.append(Record(partition, offset, key, value, HEADERS))
    out, mirror = _copied(source), _mirrored(source, marker_after)
    copies = [
        Copy("atomic", IN, OUT, once=True, partition_of=lambda key: OUT_PARTITION_OF.get(key, 0)),
        Copy("mirror", IN, MIRROR, once=True, same_partition=True, with_headers=True),
    ]
    batches = [
        Batch("atomic", number, dict.fromkeys((0, 1), (start, start + batch_size)))
        for number, start in enumerate(range(0, max(ends), batch_size))
    ]
    whole = {
        partition: 1 + max((r.offset for r in out if r.partition == partition), default=-1) for partition in (0, 1)
    }
    glimpses = [
        Glimpse("atomic", 10, {}, {0: 0, 1: 0}, at_rest=True),
        Glimpse("atomic", 20, whole, {0: ends[0], 1: ends[1]}, at_rest=True),
    ]
    logs = {IN: source, OUT: out, MIRROR: mirror}
    return History(written, logs, copies, batches, glimpses, _translations(source, mirror, ends), [Wait("w", 0, 5, 5)])


def _copied(source):
    """In micro-batches of one record, which is whole always."""
    ends, out = [0, 0], []
    for record in source:
        partition = OUT_PARTITION_OF[record.key]
        out.append(Record(partition, ends[partition], record.key, record.value))
        ends[partition] += 1
    return out


def _mirrored(source, marker_after):
    ends, mirror = [0, 0], []
    for place, record in enumerate(source):
        mirror.append(record._replace(offset=ends[record.partition], headers=(*record.headers, ("from", b"east"))))
        ends[record.partition] += 2 if place in marker_after else 1
    return mirror


def _translations(source, mirror, ends):
    """Of each offset of the source to the copy of the next record; the last offset to the mirror's end."""
    place_of = {record.value: record.offset for record in mirror}
    found = []
    for partition in (0, 1):
        after = 1 + max((record.offset for record in mirror if record.partition == partition), default=-1)
        mine = [record for record in source if record.partition == partition]
        for offset in range(ends[partition] + 1):
            following = next((place_of[each.value] for each in mine if each.offset >= offset), after)
            found.append(Translation("mirror", partition, offset, following, exact=True))
    return found


histories = st.builds(
    good,
    st.lists(st.sampled_from(Outcome), max_size=40),
    st.sets(st.integers(0, 40)),
    st.integers(1, 5),
)


def with_log(history, name, records):
    return replace(history, logs={**history.logs, name: records})
