"""What a release is made of: one version, its data files, its licence, and which builds setup.py refuses."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tarfile
import warnings
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

import kafkasource

tomllib = pytest.importorskip("tomli" if sys.version_info < (3, 11) else "tomllib")
ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ASK_SETUP = "import sys; sys.argv = ['setup.py', '--version']; exec(open('setup.py').read())"


def setup_py(code=ASK_SETUP, **environment):
    env = {**os.environ, "PYTHONWARNINGS": "ignore", **environment}
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_the_version_is_written_in_one_place_that_is_read_without_importing():
    """A zip on --py-files has no metadata, and setuptools must not import pyarrow to learn the version."""
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "kafkasource.version.__version__"}
    literals = [
        ast.literal_eval(line.value)
        for line in ast.parse((ROOT / "kafkasource/version.py").read_text()).body
        if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == "__version__"
    ]
    assert literals == [kafkasource.__version__]


def test_setuptools_reads_that_version():
    run = setup_py(KAFKASOURCE_KERNEL="skip")
    assert run.stdout.strip().splitlines()[-1] == kafkasource.__version__, run.stderr


def test_every_file_of_the_package_that_is_no_module_is_listed_as_its_data():
    listed = {
        path
        for pattern in PROJECT["tool"]["setuptools"]["package-data"]["kafkasource"]
        for path in (ROOT / "kafkasource").glob(pattern)
    }
    built = {".py", ".pyc", ".so", ".c"}
    data = {path for path in (ROOT / "kafkasource").rglob("*") if path.is_file() and path.suffix not in built}
    assert listed == data


def test_the_licence_goes_along():
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert PROJECT["project"]["license-files"] == ["LICENSE"]
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_the_extra_for_spark_takes_the_pandas_that_pyspark_supports(monkeypatch):
    """With a newer one pyspark prints a warning whenever a job starts."""
    from packaging.requirements import Requirement
    from pyspark.sql.pandas.utils import require_minimum_pandas_version

    (wanted,) = [
        one.specifier
        for one in map(Requirement, PROJECT["project"]["optional-dependencies"]["spark"])
        if one.name == "pandas"
    ]
    asked = {}
    for version in ("2.3.3", "3.0.0"):
        monkeypatch.setattr("pandas.__version__", version)
        with warnings.catch_warnings(record=True) as asked[version]:
            warnings.simplefilter("always")
            require_minimum_pandas_version()
    assert "2.3.3" in wanted
    assert asked["2.3.3"] == []
    assert not asked["3.0.0"] or "3.0.0" not in wanted  # pyspark 4.0 and 4.1 do not warn


def test_the_extra_for_spark_brings_the_protobuf_that_transform_with_state_of_this_pyspark_imports():
    """pyspark's extra `sql` does not bring it. protobuf's own check compares its version with the generated code's."""
    import pyspark
    from packaging.requirements import Requirement

    code = Path(pyspark.__file__).parent / "sql" / "streaming" / "proto" / "StateMessage_pb2.py"
    (generated,) = re.findall("# Protobuf Python Version: (.*)", code.read_text())
    (wanted,) = [
        one.specifier
        for one in map(Requirement, PROJECT["project"]["optional-dependencies"]["spark"])
        if one.name == "protobuf"
    ]
    (floor,) = [each.version for each in wanted if each.operator == ">="]
    assert Version(floor) >= Version(generated)


def test_an_unknown_kind_of_build_is_refused_in_one_line():
    run = setup_py(KAFKASOURCE_KERNEL="fast")
    assert run.returncode == 1
    assert run.stderr == "KAFKASOURCE_KERNEL=fast: expected one of auto, require, skip, abi3\n"


# Such an interpreter is not to be had on our machines: setup.py is shown what one says of itself.
FREE_THREADED = f"""
import sysconfig
ask = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else ask(name)
{ASK_SETUP}
"""


@pytest.mark.parametrize("kernel", ["auto", "require", "abi3"])
def test_free_threaded_python_is_refused_in_one_line_that_says_what_to_do(kernel):
    run = setup_py(FREE_THREADED, KAFKASOURCE_KERNEL=kernel)
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    assert "free-threaded" in run.stderr
    assert "KAFKASOURCE_KERNEL=skip" in run.stderr


def test_free_threaded_python_takes_the_interpreted_kernel_and_hears_why():
    assert setup_py(FREE_THREADED, KAFKASOURCE_KERNEL="skip").returncode == 0
    ask = FREE_THREADED.replace(
        ASK_SETUP, "import kafkasource.kafka.records, kafkasource.formats.encoding, kafkasource.formats.json"
    )
    run = setup_py(ask, KAFKASOURCE_KERNEL_INTERPRETED="1", PYTHONWARNINGS="default")
    assert run.stderr.count("RuntimeWarning") == 1, run.stderr
    assert "no compiled kernel for free-threaded Python" in run.stderr


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="the stable ABI has memoryviews from 3.11 on")
def test_the_stable_abi_is_refused_before_it_has_what_the_kernel_needs():
    run = setup_py(KAFKASOURCE_KERNEL="abi3")
    assert (run.returncode, run.stderr.count("\n")) == (1, 1)
    assert "3.11" in run.stderr


def make(target, folder):
    run = subprocess.run(
        ["make", "--no-print-directory", target, f"DIST={folder}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.extended
def test_a_release_is_built_twice_from_the_same_commit_with_the_same_bytes_and_passes_its_checks(tmp_path):
    """`make dist` installs each wheel on every Python here and runs tests with it: scripts/dist.py."""
    once, again = tmp_path / "once", tmp_path / "again"
    make("dist", once)
    make("dist-build", again)
    assert (once / "SHA256SUMS").read_text() == (again / "SHA256SUMS").read_text()

    (archive,) = once.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        assert archive.name.removesuffix(".tar.gz") + "/LICENSE" in packed.getnames()
    tags = {path.name.split("-", 2)[2].split("-manylinux")[0].removesuffix(".whl") for path in once.glob("*.whl")}
    assert tags == {"cp310-cp310", "cp311-abi3", "py3-none-any"}
    for wheel in once.glob("*.whl"):
        with zipfile.ZipFile(wheel) as packed:
            assert any(name.endswith(".dist-info/licenses/LICENSE") for name in packed.namelist()), wheel
