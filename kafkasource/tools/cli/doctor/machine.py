"""Checks this machine: Python, the kernel, Spark, the Pythons of Spark's driver and workers, Java."""

from __future__ import annotations

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from kafkasource import __version__
from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.tools.cli.doctor.finding import FAILED, OK, WARNING, Finding

_LEAST_SPARK = (4, 0)
# The packages of kafkasource that have a compiled kernel, and their purpose. If the compiler fails for one kernel, pip
# still compiles the others.
KERNELS = {
    "kafka.records": "reading and writing of records",
    "formats.decoding": "typed rows of Avro and Protobuf",
    "formats.encoding": "writing of typed rows",
    "formats.json": "typed rows of JSON",
}


def machine_findings(job: Path | None = None) -> Iterator[Finding]:
    """All checks. `job`: a program in Python that Spark runs. Raises OptionError if it cannot be read."""
    registering_job = job.name if job is not None and _registers(job) else None
    yield _python()
    yield _kernel()
    yield _spark()
    yield driver_python(registering_job)
    yield workers_python(registering_job)
    yield java()


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(OK, "python", f"{version}, kafkasource {__version__}, {sys.executable}")


def _kernel() -> Finding:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is said here
        kernels: dict[str, Any] = {name: importlib.import_module(f"kafkasource.{name}") for name in KERNELS}
    slow = [KERNELS[name] for name, kernel in kernels.items() if not kernel.COMPILED]
    if slow:
        return Finding(
            WARNING,
            "kernel",
            f"not compiled, and so about a hundred times slower: {', '.join(slow)}",
            "where a C compiler is: pip install --force-reinstall --no-deps --no-binary kafkasource kafkasource",
        )
    stale = [name.replace(".", "/") for name, kernel in kernels.items() if kernel.STALE]
    if stale:
        return Finding(
            WARNING,
            "kernel",
            f"not compiled from the kafkasource/{stale[0]}/kernel.py that is here",
            "install kafkasource again; in a checkout: make kernel",
        )
    return Finding(OK, "kernel", "compiled, for records and for typed rows")


def _spark() -> Finding:
    version = _version_of_pyspark()
    if version is None:
        return Finding(
            WARNING, "pyspark", "not in this Python", "pip install 'kafkasource[spark]', or use the cluster's"
        )
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < _LEAST_SPARK:
        return Finding(FAILED, "pyspark", version, "too old: kafkasource needs Spark 4.0 or newer")
    home = os.environ.get("SPARK_HOME")
    return Finding(OK, "pyspark", version) if home is None else _spark_home(version, home)


def _spark_home(version: str, home: str) -> Finding:
    """pyspark starts the Spark of this folder, not its own."""
    shown = f"{version}, which starts the Spark of SPARK_HOME={home}"
    if not Path(home, "bin", "spark-submit").exists():
        remedy = "unset SPARK_HOME, or correct it"
        return Finding(FAILED, "pyspark", f"{shown}: it has no bin/spark-submit, so no Spark starts", remedy)
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    release = jars[-1].stem.partition("-core_")[2].partition("-")[2] if jars else ""
    if release and release != version:
        remedy = f"unset SPARK_HOME, or pip install pyspark=={release}"
        return Finding(WARNING, "pyspark", f"{shown}, which is {release}", remedy)
    return Finding(OK, "pyspark", shown)


def _version_of_pyspark() -> str | None:
    """The version, or None without pyspark. Then this Python is a driver only under a cluster's spark-submit."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return None


_ASK_WORKER = """
import json, sys
found = {"version": list(sys.version_info[:2])}
try:
    import kafkasource, kafkasource.kafka.records, kafkasource.formats.decoding
    found["package"] = kafkasource.__version__
    found["compiled"] = kafkasource.kafka.records.COMPILED and kafkasource.formats.decoding.COMPILED
    import pyspark_pykafka
    found["by_name"] = True
except ImportError as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


def _registers(job: Path) -> bool:
    """Whether the program calls `kafkasource.register`."""
    try:
        tree = ast.parse(job.read_bytes(), str(job))
    except (OSError, SyntaxError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OptionError(f"{job}: cannot be read as a program in Python: {reason}") from None
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    imported = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "kafkasource"
        for name in node.names
        if name.name == "register"
    }
    return bool(called & ({"kafkasource.register"} | imported))


# Seen on Spark 4.2, with a program of its own in each variable. The first runs the driver of spark-submit and pyspark,
# and a format that Spark finds by its name; the second a format that the job registers, and Python functions.
_OF_DRIVER = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
_OF_WORKERS = ("PYSPARK_PYTHON",)


@dataclass(frozen=True)
class _Interpreter:
    """A Python that Spark starts, and its facts about itself, or why Spark cannot run it."""

    origin: str  # the program, or variable and program, for people
    remedy: str
    shown: str
    fault: str = ""
    package: str | None = None
    error: str | None = None  # of the imports
    compiled: bool = False
    by_name: bool = False  # whether Spark finds the format there

    @classmethod
    def named_by(cls, variables: tuple[str, ...]) -> _Interpreter:
        """The interpreter that Spark's environment names."""
        variable = next((name for name in variables if os.environ.get(name)), None)
        if variable is None:
            return cls.asked("python3", "python3 of the PATH (PYSPARK_PYTHON is not set)")
        return cls.asked(os.environ[variable], f"{variable}={os.environ[variable]}", variable)

    @classmethod
    def asked(cls, command: str, origin: str, variable: str = "PYSPARK_PYTHON") -> _Interpreter:
        remedy = f"export {variable}={sys.executable}"
        path = shutil.which(command)
        if path is None:
            return cls(origin, remedy, origin, "there is none")
        path = os.path.abspath(path)  # it is asked in another folder
        try:
            done = subprocess.run([path, "-c", _ASK_WORKER], capture_output=True, text=True, timeout=60, cwd="/")
            facts: dict[str, Any] = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return cls(origin, remedy, origin, f"{path} does not run")
        version = facts.pop("version")
        fault = "" if tuple(version) == sys.version_info[:2] else "Spark needs the same version in driver and workers"
        return cls(origin, remedy, f"{'.'.join(map(str, version))}, {path}, from {origin}", fault, **facts)


def driver_python(registering_job: str | None = None) -> Finding:
    """Check the Python that spark-submit and pyspark start as the driver: does Spark find the format by its name?

    `registering_job`: as for `workers_python`.
    """
    what, asked = "spark's driver", _Interpreter.named_by(_OF_DRIVER)
    if asked.origin == _Interpreter.named_by(_OF_WORKERS).origin:
        return Finding(OK, what, f"{asked.origin}, as the workers, under spark-submit and pyspark")
    if asked.fault:
        is_jupyter = os.path.basename(asked.origin.partition("=")[2]).startswith("jupyter")  # a usual driver
        return Finding(WARNING if is_jupyter else FAILED, what, f"{asked.shown}: {asked.fault}", asked.remedy)
    shown = f"{asked.shown}, under spark-submit and pyspark"
    if registering_job is None and not asked.by_name:
        # A driver without the package cannot call `register`.
        first = "install kafkasource there" if asked.package is None else "let the job call kafkasource.register(spark)"
        shown += f": finds no format('pykafka') there ({asked.error})"
        return Finding(WARNING, what, shown, f"{first}; or {asked.remedy}")
    return Finding(OK, what, shown)


def workers_python(registering_job: str | None = None) -> Finding:
    """Check the Python that Spark starts on this machine for its workers: can it import us?

    `registering_job`: the name of a program that calls `kafkasource.register`, which this interpreter will run.
    """
    what = "spark's python"
    if registering_job and not os.environ.get("PYSPARK_PYTHON"):
        origin = f"kafkasource.register in {registering_job}, for a local master"
        asked = _Interpreter.asked(sys.executable, origin)
    else:
        asked = _Interpreter.named_by(_OF_WORKERS)
    if asked.fault:
        level = WARNING if _version_of_pyspark() is None else FAILED
        return Finding(level, what, f"{asked.shown}: {asked.fault}", asked.remedy)
    if asked.package is None:
        registers = "with a local master, let the job call kafkasource.register(spark)"
        if os.environ.get("PYSPARK_PYTHON"):  # `register` does not replace it
            registers = "install kafkasource there"
        shown = f"{asked.shown}: has no kafkasource ({asked.error})"
        return Finding(WARNING, what, shown, f"{asked.remedy}; or {registers}")
    if not asked.by_name and not registering_job:
        shown = f"{asked.shown}: format('pykafka') needs kafkasource.register(spark)"
        return Finding(WARNING, what, shown, asked.remedy)
    if not asked.compiled:
        return Finding(WARNING, what, f"{asked.shown}: its kernel is not compiled", asked.remedy)
    return Finding(OK, what, asked.shown)


def java() -> Finding:
    from kafkasource.testing.broker.jvm.home import find_java

    try:
        return Finding(OK, "java", str(find_java()))
    except KafkaSourceError as error:
        text, _, remedy = str(error).partition(": ")
        return Finding(FAILED, "java", text, remedy)
