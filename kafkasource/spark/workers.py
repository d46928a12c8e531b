"""The Python processes that Spark starts for a session: their interpreter, and the packages that they can import.

`kafkasource.register` and `kafkasource.serve_metrics` call `prepare` on the driver.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def prepare(spark: SparkSession) -> None:
    """Choose and check the interpreter. Raises KafkaSourceError if the driver does not have it, or if it lacks
    kafkasource. Does nothing over Spark Connect, whose server starts these processes."""
    context = context_of(spark)
    if context is None:
        return
    _refuse_a_python_that_is_not_here(context.pythonExec)
    _use_this_python(context)
    _show_this_zip_to_streams(context)
    _refuse_a_python_without_us(context)


def context_of(spark: SparkSession) -> SparkContext | None:
    """None over Spark Connect."""
    return getattr(spark, "_sc", None)


def _refuse_a_python_that_is_not_here(python: str) -> None:
    """Spark plans on the driver with the workers' path of Python, which with `--archives` is a path in the archive."""
    if os.sep in python and not os.path.isabs(python) and not os.path.exists(python):
        folder = python.removeprefix("./").partition(os.sep)[0]
        raise KafkaSourceError(
            f"PYSPARK_PYTHON={python}: there is no such file in {os.getcwd()}, and Spark plans each read and write on "
            f"the driver with it. Let each find its own by name: PYSPARK_PYTHON={os.path.basename(python)}, with the "
            f"environment's bin in the driver's PATH, and --conf {path_of_archive(folder)}"
        )


def _refuse_a_python_without_us(context: SparkContext) -> None:
    """Spark plans on the driver with the workers' Python. This one needs no look."""
    python = shutil.which(context.pythonExec)
    if python is None or _is_of_this_environment(python):
        return
    lacks = _lacks(os.path.abspath(python), _shown_by_spark(context))
    if lacks:
        named = f"PYSPARK_PYTHON={context.pythonExec}"
        if not os.environ.get("PYSPARK_PYTHON"):
            named = f"PYSPARK_PYTHON is not set, and Spark takes {context.pythonExec} of the PATH"
        raise KafkaSourceError(
            f"{named}: {python} has no {lacks}, and Spark plans, reads and writes with it. Install kafkasource there, "
            f"or let PYSPARK_PYTHON name a Python that has it, as {sys.executable} does"
        )


def _is_of_this_environment(python: str) -> bool:
    ours = os.path.abspath(sys.executable)
    python = os.path.abspath(python)
    return os.path.dirname(python) == os.path.dirname(ours) and os.path.realpath(python) == os.path.realpath(ours)


def _shown_by_spark(context: SparkContext) -> str:
    """The PYTHONPATH of the driver's Python processes: the environment's, and the files of --py-files."""
    from pyspark.core.files import SparkFiles

    root = SparkFiles.getRootDirectory()
    files = [os.path.join(root, name) for name in context._python_includes]
    paths = [context.environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH"), root, *files]
    return os.pathsep.join(filter(None, paths))


_LOOK = """
import importlib.util as known
print(*[name for name in ("kafkasource", "pyarrow") if known.find_spec(name) is None], sep=" and no ")
"""


@functools.lru_cache(maxsize=8)  # a job may register the format before each read
def _lacks(python: str, path: str) -> str:
    """The packages that an interpreter lacks, of those we need. Empty if it has all, or does not run."""
    try:
        done = subprocess.run(
            [python, "-c", _LOOK],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def path_of_archive(folder: str) -> str:
    """A setting of Spark's: an executor finds the Python of an archive that is unpacked as `folder` by its name.

    Spark uses one name for the Python of a data source, on the driver to plan and on executors to read and write.
    """
    return f"spark.executorEnv.PATH=./{folder}/bin:/usr/local/bin:/usr/bin:/bin"


def _use_this_python(context: SparkContext) -> None:
    """Let the Python functions of a local session run in this interpreter, if nothing names one.

    PYSPARK_DRIVER_PYTHON does not: it names the driver's Python, and that of formats that Spark finds by their names.
    """
    if os.environ.get("PYSPARK_PYTHON"):
        return
    if context.master.split("[")[0] == "local" and context.pythonExec == "python3":
        context.pythonExec = sys.executable


def finds_by_name(spark: SparkSession, name: str) -> bool:
    """Whether Spark has found this format by its name, in the environment in which a registered one would run."""
    context = context_of(spark)
    if context is None:
        return False
    try:
        # Spark looks for it now, as it would when a format is registered.
        if not spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name):
            return False
        variables = [context._jvm.System.getenv(name) for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")]
    except Exception:  # no part of Spark's API: a vendor's Spark may lack it
        return False
    python = next(filter(None, variables), "python3")  # Spark looks for formats with it, and runs them in it
    if python == context.pythonExec:
        return True
    found = shutil.which(python)
    is_local = context.master.split("[")[0] == "local"
    return is_local and context.pythonExec == sys.executable and found is not None and _is_of_this_environment(found)


def _show_this_zip_to_streams(context: SparkContext) -> None:
    """Spark's process that plans a stream sees no `--py-files`, unless the path is in its environment."""
    folder = str(Path(__file__).parents[2])
    if os.path.isfile(folder):  # a zip
        known = context.environment.get("PYTHONPATH", "")
        if folder not in known.split(os.pathsep):
            context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [known, folder]))
