"""What this machine has: Python, the kernel, Spark, the Python of Spark's workers, Java."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from kafkasource import __version__
from kafkasource.cli.doctor.finding import FAILED, OK, WARNING, Finding
from kafkasource.errors import KafkaSourceError, OptionError

_LEAST_SPARK = (4, 0)


def machine_findings(job: Path | None = None) -> Iterator[Finding]:
    """`job`: a program in Python that Spark runs. Raises OptionError if it cannot be read."""
    registers = job is not None and _registers(job)
    yield _python()
    yield _kernel()
    yield _spark()
    yield workers_python(None if job is None or not registers else job.name)
    yield java()


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(OK, "python", f"{version}, kafkasource {__version__}, {sys.executable}")


def _kernel() -> Finding:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is said here
        from kafkasource.records import COMPILED

    if COMPILED:
        return Finding(OK, "kernel", "compiled")
    return Finding(
        WARNING,
        "kernel",
        "not compiled: records are decoded about a hundred times slower",
        "where a C compiler is: pip install --force-reinstall --no-deps --no-binary kafkasource kafkasource",
    )


def _spark() -> Finding:
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return Finding(
            WARNING, "pyspark", "not in this Python", "pip install 'kafkasource[spark]', or use the cluster's"
        )
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < _LEAST_SPARK:
        return Finding(FAILED, "pyspark", version, "its Python data sources want 4.0 or newer")
    return Finding(OK, "pyspark", version)


_ASK_WORKER = """
import json, sys
found = {"version": list(sys.version_info[:2]), "executable": sys.executable, "package": None}
try:
    import kafkasource, kafkasource.records
    found["package"], found["compiled"] = kafkasource.__version__, kafkasource.records.COMPILED
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
        raise OptionError(f"{job}: cannot be read as a program in Python: {error}") from None
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    imported = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "kafkasource"
        for name in node.names
        if name.name == "register"
    }
    return bool(called & ({"kafkasource.register"} | imported))


def workers_python(registering_job: str | None = None) -> Finding:
    """Which Python Spark starts on this machine for its workers, and does it find us?

    `registering_job`: the name of a program that calls `kafkasource.register`, which this interpreter will run.
    """
    named = os.environ.get("PYSPARK_PYTHON") or os.environ.get("PYSPARK_DRIVER_PYTHON")
    command = named or (sys.executable if registering_job else "python3")
    origin = f"PYSPARK_PYTHON={named}" if named else "python3 of the PATH (PYSPARK_PYTHON is not set)"
    if registering_job and not named:
        origin = f"kafkasource.register in {registering_job}, for a local master"
    what, path = "spark's python", shutil.which(command)
    this_one = f"export PYSPARK_PYTHON={sys.executable}"
    if path is None:
        return Finding(FAILED, what, f"{origin}: there is none", this_one)
    try:
        done = subprocess.run([path, "-c", _ASK_WORKER], capture_output=True, text=True, timeout=60, cwd="/")
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return Finding(FAILED, what, f"{origin}: {path} does not run", this_one)
    version = ".".join(map(str, found["version"]))
    shown = f"{version}, {path}, from {origin}"
    if tuple(found["version"]) != sys.version_info[:2]:
        return Finding(FAILED, what, f"{shown}: Spark wants one version in driver and workers", this_one)
    if found["package"] is None:
        remedy = f"{this_one}; or, with a local master, let the job call kafkasource.register(spark)"
        return Finding(WARNING, what, f"{shown}: has no kafkasource ({found.get('error')})", remedy)
    if not found.get("by_name") and not registering_job:
        return Finding(WARNING, what, f"{shown}: format('pykafka') needs kafkasource.register(spark)", this_one)
    if not found["compiled"]:
        return Finding(WARNING, what, f"{shown}: its kernel is not compiled", this_one)
    return Finding(OK, what, shown)


def java() -> Finding:
    from kafkasource.broker.java import find_java

    try:
        return Finding(OK, "java", str(find_java()))
    except KafkaSourceError as error:
        text, _, remedy = str(error).partition(": ")
        return Finding(FAILED, "java", text, remedy)
