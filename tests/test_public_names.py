"""Names that a package looks up when they are asked for: each is where the package says."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import kafkasource

PACKAGES = [
    "kafkasource",
    *(each.name for each in pkgutil.walk_packages(kafkasource.__path__, "kafkasource.") if each.ispkg),
]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_a_package_offers_is_there(package):
    module = importlib.import_module(package)
    missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
    assert not missing
