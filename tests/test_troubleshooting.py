"""docs/troubleshooting.md is found by the words of errors. The package's own errors end with their entry's address."""

from __future__ import annotations

import ast
import importlib
import mmap
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyspark
import pytest

from kafkasource import errors
from kafkasource.exactly_once import errors as errors_of_exactly_once

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
JARS = Path(pyspark.__file__).parent / "jars"
OF_SPARK = {  # the file in its jars that has the words
    "Python worker failed to connect back": ("spark-core_", "org/apache/spark/api/python/PythonWorkerFactory.class"),
    "Python worker exited unexpectedly (crashed)": ("spark-core_", "org/apache/spark/api/python/*.class"),
    "possible container OOM": ("spark-kubernetes_", "org/apache/spark/scheduler/cluster/k8s/*.class"),
    "Container killed by YARN for exceeding": ("spark-yarn_", "org/apache/spark/deploy/yarn/YarnAllocator.class"),
    "DATA_SOURCE_NOT_FOUND": ("spark-common-utils_", "error/error-conditions.json"),
    "CONCURRENT_STREAM_LOG_UPDATE": ("spark-common-utils_", "error/error-conditions.json"),
    "Cannot safely cast": ("spark-common-utils_", "error/error-conditions.json"),
    "UNSUPPORTED_DATA_SOURCE_SAVE_MODE": ("spark-common-utils_", "error/error-conditions.json"),
    "does not support Trigger.AvailableNow": ("spark-catalyst_", "org/apache/spark/sql/internal/SQLConf$.class"),
}
OF_JAVA = {"OptionalDataException"}
OF_PYTHON = {"No module named 'kafkasource'"}


@dataclass(frozen=True)
class Entry:
    """`words`: those of errors. The first are the title; a line that begins with "Also" has the others, and classes."""

    words: tuple[str, ...]
    classes: tuple[str, ...]

    @property
    def anchor(self) -> str:
        """As GitHub and the site make it of the title."""
        return re.sub(r"[^\w -]", "", self.words[0].lower()).replace(" ", "-")


def entries(shelf: str) -> list[Entry]:
    """The entries below `## shelf`."""
    _, _, text = PAGE.partition(f"\n## {shelf}\n")
    found = []
    for title, also in re.findall(r"^### `(.+)`\n\n(Also (?:.+\n)+)?", text.partition("\n## ")[0], re.MULTILINE):
        words, _, classes = also.partition(" (")
        found.append(Entry((title, *re.findall(r"`(.+?)`", words)), tuple(re.findall(r"`(.+?)`", classes))))
    assert found, shelf
    return found


OTHERS = entries("Errors of Spark, Java and Python")
OURS = entries("Errors of kafkasource")
CODES = entries("Error codes of brokers")
CODE_OF = {row.name: code for code, row in errors.TABLE.items()}


@cache
def texts_of_the_package() -> list[tuple[str, str, str]]:
    """Each text of the code, with its file and its end; in braces nothing. No docstrings, no texts of the log."""
    found = []
    for path in (ROOT / "kafkasource").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        left_out = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                left_out.add(node.value)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."):
                left_out |= {*node.args}
            elif isinstance(node, ast.JoinedStr):
                left_out |= {*node.values}
        name = str(path.relative_to(ROOT))
        for node in ast.walk(tree):
            if node in left_out:
                continue
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                found.append((name, text, _end(name, node.values[-1])))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append((name, node.value, node.value))
    return found


def _end(name: str, part: ast.expr) -> str:
    """The last part of a text with braces: an address, also by the name of a constant."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    value = ast.unparse(part.value)
    if isinstance(part.value, ast.Call) and value.startswith("explained('"):
        return errors.explained(ast.literal_eval(part.value.args[0]))
    return (
        str(getattr(importlib.import_module(name[:-3].replace("/", ".").removesuffix(".__init__")), value, ""))
        if value.isupper()
        else ""
    )


@pytest.mark.parametrize("words", [words for entry in OTHERS for words in entry.words])
def test_what_stands_among_the_errors_of_others_is_theirs(words):
    if words in OF_JAVA:
        home = os.environ.get("JAVA_HOME") or Path(shutil.which("java")).resolve().parents[1]
        with (
            (Path(home) / "lib" / "modules").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            assert content.find(f"java/io/{words}".encode()) > 0
    elif words in OF_PYTHON:
        command = [sys.executable, "-I", "-S", "-c", "import kafkasource"]
        assert words in subprocess.run(command, cwd="/", capture_output=True, text=True, check=False).stderr
    else:
        jar, member = OF_SPARK[words]
        (path,) = JARS.glob(f"{jar}2.13-*.jar")
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if Path(name).match(member)]
            assert any(words.encode() in archive.read(name) for name in names)


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: entry.anchor)
def test_each_error_of_ours_that_has_an_entry_ends_with_its_address(entry):
    for words in sorted({*entry.words} - CODE_OF.keys()):
        ends = {(name, end) for name, text, end in texts_of_the_package() if words in text}
        assert ends, words
        assert {(name, end) for name, end in ends if end != errors.explained(entry.anchor)} == set()
    for name in entry.classes:
        assert issubclass(getattr(errors_of_exactly_once, name), errors.KafkaSourceError)


def test_each_code_that_has_an_entry_ends_with_its_address():
    assert [words for entry in CODES for words in entry.words if words not in CODE_OF] == []
    codes = {CODE_OF[words]: entry.anchor for entry in CODES + OURS for words in entry.words if words in CODE_OF}
    assert codes == errors.EXPLAINED
    for code, anchor in codes.items():
        assert str(errors.error_for(code, "topic 't'")).endswith(f" {errors.explained(anchor)}")
        assert str(errors.refusal(errors.error_for(code), "Fetch", "is logged in as 'ada'")).endswith(")")


def test_each_address_that_an_error_gives_has_an_entry():
    given = {
        ast.literal_eval(anchor)
        for path in (ROOT / "kafkasource").rglob("*.py")
        for anchor in re.findall(r"\bexplained\((['\"].+?['\"])\)", path.read_text(encoding="utf-8"))
    }
    assert given == {entry.anchor for entry in OURS}


def test_the_address_is_written_in_one_place():
    naming = [name for name, text, _ in texts_of_the_package() if "docs/troubleshooting.md" in text]
    assert naming == ["kafkasource/errors.py"]


def test_each_condition_of_data_loss_is_explained():
    from kafkasource.kafka.fetch import loss

    conditions = {value for name, value in vars(loss).items() if name.isupper() and name == value}
    assert {name for name in conditions if f"`{name}`" not in PAGE} == set()
