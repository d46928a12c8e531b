"""Runs something right after a module was imported for the first time, before its importer goes on.

Spark gives a Python process ten seconds to start. So no process imports a module only in order to patch it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class _After(Loader):
    def __init__(self, loader: Loader, then: Callable[[], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._then()


class _Finder(MetaPathFinder):
    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self._then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:  # others may wait for the same module
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _After(spec.loader, self._then)
                return spec
        return PathFinder.find_spec(fullname, path, target)


def after_import(name: str, then: Callable[[], None]) -> None:
    sys.meta_path.insert(0, _Finder(name, then))
