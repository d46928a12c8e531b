"""The rooms of the package: its layers from the import contracts, what each room is from its docstring."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kafkasource"


def layers(container: str = "kafkasource") -> list[list[str]]:
    """The layers of a room from the top: each holds the names that share it. Empty where no contract orders them."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    for contract in tools["importlinter"]["contracts"]:
        if contract["type"] != "layers":
            continue
        prefixes = contract.get("containers", [""])
        names = [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]
        full = [[f"{prefix}.{name}".lstrip(".") for name in layer] for prefix in prefixes for layer in names]
        if all(name.rpartition(".")[0] == container for layer in full for name in layer):
            return [[name.rpartition(".")[2] for name in layer] for layer in full]
    return []


def drawing() -> str:
    """The layers of the package, from the top, and beside a room the layers within it."""
    lines = []
    for layer in layers():
        inner = [" | ".join(room) for name in layer for room in layers(f"kafkasource.{name}")]
        line = " | ".join(layer)
        lines.append(f"    {line:28}{'  >  '.join(inner)}".rstrip())
    return "\n" + "\n".join(lines) + "\n"


def markdown_table() -> str:
    """A row for each room in the drawing, in the order of the layers: what its docstring says first."""
    drawn = {"", *(outer for layer in layers() for outer in layer if layers(f"kafkasource.{outer}"))}
    names = [name for name in _rooms() if name.rpartition("/")[0] in drawn]
    rows = [f"| `{name}` | {_first_sentence(PACKAGE / name / '__init__.py')} |" for name in names]
    return "\n".join(["| room | what it is |", "|---|---|", *rows])


def without_docstring() -> list[str]:
    return [name for name in _rooms() if not _first_sentence(PACKAGE / name / "__init__.py")]


def _rooms() -> Iterator[str]:
    top = [name for layer in layers() for name in layer]
    for room in sorted((path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()), key=_place(top)):
        yield room.name
        inner = [name for layer in layers(f"kafkasource.{room.name}") for name in layer]
        for nested in sorted((path for path in room.iterdir() if (path / "__init__.py").exists()), key=_place(inner)):
            yield f"{room.name}/{nested.name}"


def _place(order: list[str]) -> Callable[[Path], tuple[int, str]]:
    return lambda path: (order.index(path.name) if path.name in order else len(order), path.name)


def _first_sentence(file: Path) -> str:
    text = " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split())
    sentence = re.match(r".*?[.](?= |$)", text)
    return sentence[0] if sentence else text
