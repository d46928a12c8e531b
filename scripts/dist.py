"""Builds a release into dist/ and checks it: `dist.py build`, `dist.py check [PYTHON ...]`. See docs/releasing.md.

Runs in .venv-dist, from the root of a git checkout. All that is built comes from the source archive, and that comes
from the files that git knows, so nothing that lies about in the checkout gets in. With the same commit, compiler and
versions of the build's requirements, the same bytes come out: times are those of the commit.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import tomllib

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / os.environ.get("DIST", "dist")
TOOLS = Path(sys.executable).parent  # of .venv-dist


class Wheel(NamedTuple):
    """One kind of wheel: the tags in its file name, the Python that builds it, and KAFKASOURCE_KERNEL for setup.py."""

    tags: str
    python: str
    kernel: str


WHEELS = (
    Wheel("cp310-cp310", "3.10", "require"),  # the kernel's memoryviews are in the stable ABI from 3.11 on
    Wheel("cp311-abi3", "3.11", "abi3"),  # 3.11 and all later ones
    Wheel("py3-none-any", "3.11", "skip"),  # where neither fits and nobody has a compiler: interpreted, and it says so
)
# The folders with a kernel; each has a declaration beside it.
KERNELS = sorted(path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "kafkasource").rglob("kernel.pxd"))
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")

# Every file of a wheel is of one of these kinds, and each kind is there. `*.pxd` and `*.h`: a compiled library carries
# the hash of its sources, and kafkasource.kafka.records.kernels compares them.
EVERY_WHEEL = (
    "kafkasource/*.py",
    "pyspark_pykafka/__init__.py",
    "kafkasource/py.typed",
    *(f"{folder}/kernel.pxd" for folder in KERNELS),
    "kafkasource/formats/buffers.pxd",
    "kafkasource/kafka/records/crc32c.h",
    "kafkasource/tools/monitor/page.html",
    "kafkasource/tools/ui/*.css",
    "kafkasource/tools/ui/*.html",
    "kafkasource/tools/ui/*.js",
    "kafkasource/tools/web/common.css",
    "kafkasource/tools/web/common.js",
    "kafkasource-*.dist-info/METADATA",
    "kafkasource-*.dist-info/RECORD",
    "kafkasource-*.dist-info/WHEEL",
    "kafkasource-*.dist-info/entry_points.txt",
    "kafkasource-*.dist-info/top_level.txt",
    "kafkasource-*.dist-info/licenses/LICENSE",
)
COMPILED_WHEEL = (*EVERY_WHEEL, "kafkasource/_cyutility.*.so", *(f"{folder}/kernel.*.so" for folder in KERNELS))
NOT_IN_THE_ARCHIVE = (".ci/*", ".github/*", ".gitignore")  # of the forge and of git
MADE_BY_SETUPTOOLS = ("PKG-INFO", "setup.cfg", "kafkasource.egg-info/*")

# Fast tests that need no pyspark and no broker: every layer and every kernel once, from options to a fake broker's
# sockets.
SMOKE_TESTS = (
    "options/test_options.py",
    "kafka/records/test_builder.py",
    "kafka/records/test_decode.py",
    "formats/test_avro_columns.py",
    "formats/test_avro_encode.py",
    "formats/test_columns_of_json.py",
    "test_writing_without_spark.py",
)
SMOKE_NEEDS = ("pytest>=8", "pytest-cov", "pytest-timeout", "hypothesis", "lz4", "zstandard", "fastavro")
# Runs in the environment of an installed wheel: prints the package's place, the state of each kernel, and the warnings.
ASK = f"""
import importlib, json, warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import kafkasource
    kernels = [importlib.import_module(name) for name in {[folder.replace("/", ".") for folder in KERNELS]}]
from importlib.metadata import version
assert version("kafkasource") == kafkasource.__version__, version("kafkasource")
print(json.dumps({{
    "file": kafkasource.__file__,
    "compiled": [each.__name__ for each in kernels if each.COMPILED],
    "stale": [each.__name__ for each in kernels if each.STALE],
    "warned": sum("uncompiled" in str(one.message) for one in seen),
}}))
"""


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """The output of a command. If it fails, print the command and end the script."""
    # Nothing of the checkout is on the path of what runs here, and all tools are found, patchelf by auditwheel too.
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "KAFKASOURCE_KERNEL")}
    env |= {"PATH": f"{TOOLS}{os.pathsep}{env['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment}
    words = [str(word) for word in command]
    ran = subprocess.run(
        words, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if ran.returncode:
        sys.exit(f"{ran.stdout}\ndist.py: this failed: {' '.join(words)}")
    return ran.stdout


def say(text: str) -> None:
    print(text, flush=True)


def find_python(version: str) -> str:
    name = run(ROOT / "scripts" / "find_python.sh", version).strip()
    return shutil.which(name) or name  # pip wants a path


def pip(python: str | Path, *arguments: str | Path, **environment: str) -> str:
    """The tools' own pip, at work for another Python, which need not have one."""
    return run(sys.executable, "-m", "pip", "--python", python, *arguments, **environment)


def time_of_the_commit() -> str:
    return os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct").strip()


# ---- build


def build() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="kafkasource-dist-") as name:
        folder = Path(name)
        archive = build_archive(folder)
        say(f"{archive.name}: {archive.stat().st_size:,} bytes")
        for wheel in WHEELS:
            built = build_wheel(wheel, archive, folder)
            say(f"{built.name}: {built.stat().st_size:,} bytes")
        write_bill_of_materials(folder)
    files = sorted(path for path in DIST.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (DIST / "SHA256SUMS").write_text("".join(sums))


def build_archive(folder: Path) -> Path:
    """The source archive, of a copy of git's files: setuptools would take what an old build has left beside them."""
    copy = folder / "checkout"
    for name in run("git", "ls-files", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    # The kernel is left alone: only wheels compile it.
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, copy, KAFKASOURCE_KERNEL="skip")
    (built,) = folder.glob("kafkasource-*.tar.gz")
    return repack(built, DIST / built.name, int(time_of_the_commit()))


def repack(source: Path, target: Path, time_s: int) -> Path:
    """The same archive without the builder's name and clock, which setuptools writes into it."""
    with (
        tarfile.open(source) as given,
        target.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=time_s) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as taken,
    ):
        for member in sorted(given.getmembers(), key=lambda one: one.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime, member.mode = time_s, 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            taken.addfile(member, given.extractfile(member) if member.isfile() else None)
    return target


def build_wheel(wheel: Wheel, archive: Path, folder: Path) -> Path:
    """A wheel of the source archive, built in an empty environment with no index but the build's requirements."""
    python = find_python(wheel.python)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needs, raw = folder / f"needs-{wheel.python}", folder / f"raw-{wheel.tags}"
    pip(python, "download", "--quiet", "--dest", needs, *project["build-system"]["requires"])
    pip(
        python, "wheel", "--no-deps", "--no-index", "--find-links", needs, "--wheel-dir", raw, archive,
        KAFKASOURCE_KERNEL=wheel.kernel, SOURCE_DATE_EPOCH=time_of_the_commit(),
    )  # fmt: skip
    (built,) = raw.glob(f"kafkasource-*-{wheel.tags}*.whl")
    if wheel.kernel == "skip":
        return Path(shutil.copy2(built, DIST / built.name))
    if not sys.platform.startswith("linux"):
        sys.exit("dist.py builds on Linux; .github/workflows/release.yml has the recipe for other systems")
    run(TOOLS / "auditwheel", "repair", "--wheel-dir", DIST, built, SOURCE_DATE_EPOCH=time_of_the_commit())
    (repaired,) = DIST.glob(f"kafkasource-*-{wheel.tags}-*.whl")
    return repaired


def write_bill_of_materials(folder: Path) -> None:
    """Write CycloneDX of the package and of the dependencies that pip installs today in an empty environment."""
    wheel = next(DIST.glob("*-cp311-abi3-*.whl"))
    python = empty_environment(find_python("3.11"), folder / "bill")
    pip(python, "install", "--quiet", "--no-compile", wheel)
    target = DIST / f"{wheel.name.split('-cp311')[0]}.cdx.json"
    run(
        TOOLS / "cyclonedx-py", "environment", "--output-reproducible", "--pyproject", ROOT / "pyproject.toml",
        "--output-file", target, python,
    )  # fmt: skip


# ---- check


def check(more_pythons: list[str]) -> None:
    archive, wheels = next(DIST.glob("*.tar.gz")), sorted(DIST.glob("*.whl"))
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=DIST)
    run(sys.executable, "-m", "twine", "check", "--strict", archive, *wheels)
    run(TOOLS / "abi3audit", "--strict", next(DIST.glob("*-cp311-abi3-*.whl")))
    check_archive(archive)
    for wheel in wheels:
        check_wheel(wheel)
    say("contents, metadata, sums and the stable ABI are right")
    with tempfile.TemporaryDirectory(prefix="kafkasource-dist-") as name:
        tests = unpack_tests(archive, Path(name))
        for python in pythons_here(more_pythons):
            for wheel in wheels:
                if fits(python, wheel):
                    say(f"{wheel.name}: {try_wheel(python, wheel, tests, Path(name))}")


def check_archive(archive: Path) -> None:
    """It has git's files, each of them, and beside them only what setuptools writes: nothing of C that Cython made."""
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in (one.name for one in packed.getmembers() if one.isfile())}
    tracked = {name for name in run("git", "ls-files", "-z").split("\0") if name and (ROOT / name).is_file()}
    tracked = {name for name in tracked if not like_any(name, NOT_IN_THE_ARCHIVE)}
    names = {name for name in names if not like_any(name, MADE_BY_SETUPTOOLS)}
    if names != tracked:
        sys.exit(
            f"{archive.name}: lacks {sorted(tracked - names)}, has besides {sorted(names - tracked)}: see MANIFEST.in"
        )


def check_wheel(wheel: Path) -> None:
    """It has a file of every kind in the table, and no file of another kind; every module of the package is in it."""
    kinds = EVERY_WHEEL if wheel.name.endswith("-any.whl") else COMPILED_WHEEL
    with zipfile.ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if not name.endswith("/")]  # auditwheel adds folders
    unknown = [name for name in names if not like_any(name, kinds)]
    missing = [kind for kind in kinds if not any(fnmatch(name, kind) for name in names)]
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "kafkasource").rglob("*.py")} - set(names)
    if unknown or missing or modules:
        sys.exit(f"{wheel.name}: unknown files {unknown}, missing kinds {missing}, missing modules {sorted(modules)}")


def like_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def unpack_tests(archive: Path, folder: Path) -> Path:
    """The archive's tests and documents without its package: what they import is what was installed."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    shutil.rmtree(root / "kafkasource")
    shutil.rmtree(root / "pyspark_pykafka")
    return root


def pythons_here(more_pythons: Iterable[str]) -> Iterator[str]:
    """The installed Pythons of `PYTHONS`, and `more_pythons`."""
    named = {Path(python).name for python in more_pythons}
    for version in PYTHONS:
        try:
            yield find_python(version)
        except SystemExit:
            if f"python{version}" not in named:
                say(f"Python {version} is not here: not checked on it")
    yield from more_pythons


def empty_environment(python: str, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


def fits(python: str, wheel: Path) -> bool:
    """Whether pip would choose this wheel there. It can always choose the wheel for every Python."""
    minor = int(run(python, "-c", "import sys; print(sys.version_info.minor)"))
    return wheel.name.endswith("-any.whl") or ("-cp310-" in wheel.name) == (minor == 10)


def try_wheel(python: str, wheel: Path, tests: Path, folder: Path) -> str:
    """Install it into an empty environment, use it from outside the checkout, and run the smoke tests with it."""
    installed = empty_environment(python, folder / "installed")
    pip(installed, "install", "--quiet", "--no-compile", wheel)
    answer = json.loads(run(installed, "-c", ASK, cwd=folder).strip().splitlines()[-1])
    compiled = not wheel.name.endswith("-any.whl")
    kernels = [folder.replace("/", ".") for folder in KERNELS] if compiled else []
    expected = {"compiled": kernels, "stale": [], "warned": 0 if compiled else 1}
    if not Path(answer.pop("file")).is_relative_to(folder / "installed") or answer != expected:
        sys.exit(f"{wheel.name} on {python}: {answer}, expected {expected}, all of it from {folder / 'installed'}")
    run(installed, "-m", "kafkasource", "--version", cwd=folder)
    pip(installed, "install", "--quiet", "--no-compile", *SMOKE_NEEDS)
    ignore = () if compiled else ("-W", "ignore:kafkasource runs its kernel uncompiled")
    words = ["-m", "pytest", "-q", *ignore, "-m", "not slow and not extended", *(f"tests/{one}" for one in SMOKE_TESTS)]
    printed = run(installed, *words, cwd=tests, KAFKASOURCE_SKIPS="fail", KAFKASOURCE_JSON_INPUTS="100")
    release = run(installed, "-c", "import platform; print(platform.python_version())").strip()
    return f"Python {release}: {printed.strip().splitlines()[-1]}"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build"]:
            build()
        case ["check", *more]:
            check(more)
        case _:
            sys.exit("dist.py build, or dist.py check [PYTHON ...]")
