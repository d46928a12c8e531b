"""The parts of the parity suite: cases as data, the outcome of a run, and the comparison of two runs.

A `Case` is a row: an option, what is done with it (steps), and a verdict. The runner (`parity_run.py`) takes the steps
once through `format("kafka")` and once through `format("pykafka")`, on topics of the same content; `judge` compares.
What the JVM connector saw is also on file (`jvm_record.py`), so that ours can be held to it alone.

- `same`: both saw the same, row for row: columns, rows, rows per micro-batch, end offsets; or both failed with the
  phrase that the case gives.
- `better`, `different` (why): each read says what the JVM connector sees (`theirs`) and what ours sees (`ours`), and
  both are asserted. A difference that goes away, on either side, fails the suite.

`docs/jvm-connector.md` and `docs/jvm-connector-writes.md` are rendered from the same rows (`make readme`).

In options `$numbers`, `$other`, ... stand for the shared topics (`Case.SHARED`), `$mine` and `$mine2` for topics of the
run's own, `$group` for a group of its own, `$run` for what all these names begin with; `$$` is a dollar. What is seen
and expected names them without the dollar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

T0 = 1_600_000_000_000  # ms: record `offset` of any partition has the timestamp T0 + 1000 * offset
Options = Mapping[str, str | None]


@dataclass(frozen=True)
class Verdict:
    name: str
    why: str = ""


SAME = Verdict("same")


@dataclass(frozen=True)
class Expect:
    """The expected outcome of a read. None: the case does not say."""

    rows: int | None = None  # how many
    offsets: Mapping[str, Sequence[int]] | None = None  # of the rows, by "topic-partition"
    batches: Sequence[int] | None = None  # rows of each micro-batch that had any
    ends: Sequence[Mapping[str, Mapping[str, int]]] | None = None  # last planned end offsets, of each source
    times: Sequence[int | None] | None = None  # timestamps of the rows, ms, by topic, partition and offset
    written: Sequence[tuple[Any, ...]] | None = None  # topic, partition, key, value, headers of the rows
    pieces: Sequence[str] | None = None  # what each task read: "topic-partition first..last", joined by " + "
    metrics: Sequence[str] | None = None  # names of the source's metrics in the query's progress
    error: str | None = None  # a phrase of the error; None: it must not fail


def reads(rows: int | None = None, **more: Any) -> Expect:
    return Expect(rows, **more)


def fails(phrase: str, **more: Any) -> Expect:
    return Expect(error=phrase, **more)


@dataclass
class Seen:
    """The outcome of one read. Topics are named as in the case, so that two runs compare."""

    columns: list[tuple[str, str]] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(
        default_factory=list
    )  # topic, partition, offset, key, value, ms, type[, headers]
    batches: list[int] = field(default_factory=list)
    ends: list[dict[str, dict[str, int]]] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    error: str | None = None

    @property
    def written(self) -> list[tuple[Any, ...]]:
        return [(*row[:2], *row[3:5], *row[7:]) for row in self.rows]

    @property
    def times(self) -> list[int | None]:
        return [row[5] for row in self.rows]

    @property
    def offsets(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, partition, offset, *_ in self.rows:
            found.setdefault(f"{topic}-{partition}", []).append(offset)
        return found


# Steps. What is done to Kafka:


@dataclass(frozen=True)
class Step:
    """One thing that the runner does."""


@dataclass(frozen=True)
class Topic(Step):
    """Make a topic, with this many records in each partition (or in those named)."""

    records: int | Mapping[int, int] = 0
    partitions: int = 1
    name: str = "mine"


@dataclass(frozen=True)
class Produce(Step):
    records: int | Mapping[int, int]
    name: str = "mine"
    timestamp: int | None = None  # ms, of all of them; None: by their offsets


@dataclass(frozen=True)
class AddPartitions(Step):
    total: int
    name: str = "mine"


@dataclass(frozen=True)
class DeleteRecords(Step):
    """Move the start of the log, as retention does: {partition: first offset that is left}."""

    before: Mapping[int, int]
    name: str = "mine"


@dataclass(frozen=True)
class DeleteTopic(Step):
    name: str = "mine"


# What is read:


@dataclass(frozen=True)
class Read(Step):
    """One read. `sees` is for both connectors, else `theirs` and `ours`. The topic is `$numbers` unless one is chosen;
    an option that is None is left out.
    """

    options: Options = field(default_factory=dict)
    sees: Expect | None = None
    theirs: Expect = Expect()
    ours: Expect = Expect()
    schema: str | None = None  # for .schema()

    def expected(self, format_name: str) -> Expect:
        if self.sees is not None:
            return self.sees
        return self.ours if format_name == "pykafka" else self.theirs


@dataclass(frozen=True)
class Batch(Read):
    """`spark.read`, collected."""


@dataclass(frozen=True)
class Again(Read):
    """The DataFrame of the last `Batch`, collected once more."""


@dataclass(frozen=True)
class Stream(Read):
    """One run of a streaming query on the case's checkpoint, until it ends by itself.

    `during`: done to Kafka once the first micro-batch is planned. `dies_in`: the sink fails in this micro-batch.
    """

    trigger: Mapping[str, Any] = field(default_factory=lambda: {"availableNow": True})
    shape: str = (
        "one"  # or "union": of $numbers and $other, each with the options; "self-join"; "distinct": each key once
    )
    during: Sequence[Step] = ()
    dies_in: int | None = None


@dataclass(frozen=True)
class Running(Read):
    """A query that runs on while each of the `during` is done; it takes in what there is before each and last."""

    during: Sequence[Step] = ()


@dataclass(frozen=True)
class Committed(Read):
    """The offsets that a consumer group has committed, as another client sees them (`ends`). Reads nothing."""

    group: str = ""


# Writes (`parity_writes.py` runs them). A write sees the rows that lie in `$mine` and `$mine2` afterwards.


@dataclass(frozen=True)
class Write(Read):
    """`df.write.save()` of `select`, the SQL of a SELECT. Its topic is `$mine` unless one is chosen."""

    select: str = "'k' AS key, 'v' AS value"
    mode: str | None = "append"


@dataclass(frozen=True)
class WriteStream(Read):
    """A streaming write of `$other`, five records, with availableNow. `grouped`: of a count over them all."""

    mode: str = "append"
    grouped: bool = False


@dataclass(frozen=True)
class Sql(Read):
    """SQL statements, in which `$using` stands for `USING` a connector with its options. The rows of a `SELECT *` are
    the rows seen. `registered`: `$using` names a format of ours that `register` gave the options."""

    statements: Sequence[str] = ()
    registered: bool = False


@dataclass(frozen=True)
class Change(Step):
    """The step that changes the connector: from here on the other one reads, on the same checkpoint."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    option: str  # which row of the documentation it belongs to
    what: str  # is run, in a few words for the documentation
    verdict: Verdict
    steps: Sequence[Step]
    documented: bool = True  # has it a place in the tables of the documentation?

    SHARED: ClassVar[tuple[str, ...]] = ("numbers", "other", "headers", "transactions", "aged", "empty")

    @property
    def id(self) -> str:
        return f"{self.option}: {self.what}".replace("`", "")

    @property
    def reads(self) -> list[Read]:
        return [step for step in self.steps if isinstance(step, Read)]

    @property
    def needs_both(self) -> bool:
        """Do both connectors read in it, one after the other?"""
        return any(isinstance(step, Change) for step in self.steps)


def same(what: str, *steps: Step) -> Case:
    return Case("", what, SAME, steps)


def bad_value(what: str, *steps: Step) -> Case:
    """Both refuse a value that the option cannot have. The documentation says so once for all options."""
    return Case("", what, SAME, steps, documented=False)


def better(what: str, why: str, *steps: Step) -> Case:
    return Case("", what, Verdict("better", why), steps)


def different(what: str, why: str, *steps: Step) -> Case:
    return Case("", what, Verdict("different", why), steps)


def option(name: str, *cases: Case) -> tuple[Case, ...]:
    """The cases of one row of the documentation."""
    return tuple(replace(case, option=name) for case in cases)


# Judging.


def judge(case: Case, theirs: Sequence[Seen], ours: Sequence[Seen]) -> list[str]:
    """Sentences on each difference from the claim of the case. `theirs`, `ours`: a `Seen` for each read."""
    wrong = []
    for number, (read, their, our) in enumerate(zip(case.reads, theirs, ours, strict=True)):
        where = f"read {number}, {type(read).__name__}"
        wrong += [f"{where}: the JVM connector: {text}" for text in unexpected(read.expected("kafka"), their)]
        wrong += [f"{where}: pykafka: {text}" for text in unexpected(read.expected("pykafka"), our)]
        if case.verdict == SAME:
            wrong += [f"{where}: {text}" for text in differences(read, their, our)]
    return wrong


def unexpected(expect: Expect, seen: Seen) -> list[str]:
    """Sentences on each difference between outcome and expectation."""
    found = _shortened(seen.error) if seen.error is not None else f"{len(seen.rows)} rows"
    if expect.error is None and seen.error is not None:
        return [f"failed: {found}"]
    wrong = []
    if expect.error is not None and expect.error not in (seen.error or ""):
        wrong.append(f"expected an error with {expect.error!r}, got {found}")
    if expect.rows is not None and expect.rows != len(seen.rows):
        wrong.append(f"expected {expect.rows} rows, got {len(seen.rows)}")
    if (
        expect.offsets is not None
        and (wanted := {tp: list(found) for tp, found in expect.offsets.items()}) != seen.offsets
    ):
        wrong.append(f"expected the offsets {wanted}, got {seen.offsets}")
    for name in ("batches", "ends", "times", "written", "pieces", "metrics"):
        wanted, got = getattr(expect, name), getattr(seen, name)
        if wanted is not None and list(wanted) != got:
            wrong.append(f"expected {name} {wanted}, got {got}")
    return wrong


def _shortened(error: str) -> str:
    """Java says what is wrong first, Python last."""
    return error if len(error) < 2000 else f"{error[:800]}\n...\n{error[-1000:]}"


def differences(read: Read, theirs: Seen, ours: Seen) -> list[str]:
    """Sentences on each difference between two outcomes that should be equal."""
    wrong = []
    for name in compared(read):
        their, our = getattr(theirs, name), getattr(ours, name)
        if their != our:
            extra, missing = _apart(their, our)
            wrong.append(f"{name}: the JVM connector alone has {missing}, pykafka alone {extra}")
    return wrong


def compared(read: Read) -> list[str]:
    """The fields in which two outcomes must be equal. Errors differ in words; a failed query's progress in timing.

    What a task reads (`pieces`) and the metrics are compared where the case asks for them. A query that runs on may
    plan a micro-batch between any two records that are written: where it divides them says nothing.
    """
    if read.expected("kafka").error is not None:
        return []
    untold = {"pieces", "metrics", "error"} | ({"batches"} if isinstance(read, Running) else set())
    return [f.name for f in fields(Seen) if f.name not in untold]


def _apart(theirs: list[Any], ours: list[Any]) -> tuple[list[Any], list[Any]]:
    """Up to five rows that only `ours` has, and that only `theirs` has; 20 of both when the order differs."""
    extra, missing = [x for x in ours if x not in theirs], [x for x in theirs if x not in ours]
    return (extra[:5], missing[:5]) if extra or missing else (ours[:20], theirs[:20])


# The documentation.


def markdown_table(cases: Sequence[Case]) -> str:
    """Two tables: each difference with its reason, then what is the same, in a row for each option."""
    different = ["| option | what is run through both | pykafka is |", "|---|---|---|"]
    alike = ["| option | the same in both |", "|---|---|"]
    for option in dict.fromkeys(case.option for case in cases):
        of_option = [case for case in cases if case.option == option]
        if same := "; ".join(case.what for case in of_option if case.verdict == SAME and case.documented):
            alike.append(f"| {option} | {same} |")
        for case in of_option:
            if case.verdict != SAME:
                different.append(f"| {option} | {case.what} | **{case.verdict.name}**: {case.verdict.why} |")
    return "\n".join([*different, "", *alike])
