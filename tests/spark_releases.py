"""What holds on which release of Spark: the table of docs/spark-releases.md, and the tests that a release cannot run.

A test with `@pytest.mark.needs_spark(KEY)` runs only where the row's cell of the installed pyspark does not begin with
"no". It is left out elsewhere, without a skip: the table says why.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkasource.spark import releases


class Row(NamedTuple):
    what: str
    on_4_0: str
    on_4_1: str
    from_4_2: str
    held_by: str  # the file of tests, in tests/


ONE_BATCH = (
    "no: one micro-batch takes all, with a warning; a run that repeats a failed one leaves what came later to the next"
)
NAMED = "with `trigger=processingTime`"
BOUNDED = "with `trigger=availableNow`"

ROWS = {
    "read_and_write": Row(
        "batch and streaming reads and writes, Arrow batches",
        "yes",
        "yes",
        "yes",
        "spark/test_batch.py, test_stream.py",
    ),
    "exactly_once": Row(
        "`deliveryGuarantee=exactly_once`, batch and stream",
        "yes",
        "yes",
        "yes",
        "spark/test_exactly_once_options.py, test_limits_on_each_release.py",
    ),
    "connect": Row("Spark Connect", "yes", "yes", "yes", "spark/test_connect.py"),
    "sql_tables": Row(
        "SQL tables of a format that `register` named ([sql.md](sql.md))",
        "yes",
        "yes",
        "yes",
        "spark/test_sql_tables.py",
    ),
    "insert_some_columns": Row(
        "`INSERT INTO t (key, value)`, where `t` has more columns",
        "no: name these two alone in `CREATE TABLE`",
        "yes",
        "yes",
        "spark/test_sql_tables.py",
    ),
    "pipelines": Row(
        "declarative pipelines ([pipelines.md](pipelines.md))",
        "no: Spark has none",
        "yes",
        "yes",
        "spark/test_pipelines.py",
    ),
    "limits": Row(
        "limits (`maxOffsetsPerTrigger`, `maxBytesPerTrigger`, `minOffsetsPerTrigger`), also over restarts",
        NAMED,
        NAMED,
        "yes",
        "spark/test_limits_on_each_release.py",
    ),
    "limited_available_now": Row(
        "limits under `availableNow` and `once`", ONE_BATCH, "no: as on 4.0", "yes", "peers/test_parity.py"
    ),
    "refused_limit": Row(
        "a limit without the option `trigger`",
        "an error",
        "an error",
        "no error: Spark tells the trigger",
        "spark/test_limits_on_each_release.py",
    ),
    "bounded_stream": Row(
        "`endingOffsets` and its siblings in a stream", BOUNDED, BOUNDED, "yes", "spark/test_limits_on_each_release.py"
    ),
    "trigger_is_told": Row(
        "a query with another trigger than the option `trigger` names",
        "no error, or a late one ([below](#common-problems))",
        "no error: as on 4.0",
        "an error",
        "spark/test_limits_on_each_release.py",
    ),
    "filters": Row("`pushDownPredicate`", "no: an error", "yes", "yes", "spark/test_filter_pushdown.py"),
    "lag": Row(
        "`kafkasource.lag(query)`",
        "yes; an idle query is not looked at again",
        "as on 4.0",
        "yes",
        "spark/test_limits_on_each_release.py",
    ),
    "lag_seconds": Row(
        "lag in seconds of `serve_metrics`, from the oldest record that is not read",
        "no: from the growth of the logs, or a lower bound",
        "no: as on 4.0",
        "yes",
        "metrics/test_metrics_of_a_query.py",
    ),
    "last_group_commit": Row(
        "`commitOffsets`: the last commit of an `availableNow` run",
        "no: it comes with the next run",
        "no: as on 4.0",
        "at the end of the run",
        "spark/test_group_offsets.py",
    ),
    "named_sources": Row(
        "`readStream.name(...)`: sources come, go and change places ([reading.md](reading.md#named-sources))",
        "no: Spark has none",
        "no: Spark has none",
        "yes",
        "spark/test_sparks_own_tools.py",
    ),
    "worker_logs": Row(
        "`python_worker_logs()` ([troubleshooting.md](troubleshooting.md#the-log-of-the-python-processes))",
        "no: Spark has none",
        "not tried",
        "yes",
        "spark/test_sparks_own_tools.py",
    ),
    "upgrade": Row(
        "a checkpoint goes on under a later release, and back", "yes", "yes", "yes", "spark/test_upgrade.py"
    ),
}


def runs_here(key: str) -> bool:
    """Does the installed pyspark have what this row is about?"""
    row = ROWS[key]
    cell = row.from_4_2
    if not releases.TELLS_START_AND_LIMIT:
        cell = row.on_4_1 if releases.HAS_FILTERS else row.on_4_0
    return not cell.startswith("no")


def markdown_table() -> str:
    """A row for all features that hold alike."""
    alike: dict[str, list[str]] = {}
    for row in ROWS.values():
        alike.setdefault(f"{row.on_4_0} | {row.on_4_1} | {row.from_4_2}", []).append(row.what)
    lines = ["| | Spark 4.0 | Spark 4.1 | from Spark 4.2 |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {'; '.join(features)} | {cells} |" for cells, features in alike.items())])
