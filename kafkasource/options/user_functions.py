"""Loads a function of the user that an option names: `module:function`."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from kafkasource.errors import OptionError


def load(named: str, option: str) -> Callable[..., object]:
    """Load the function, in the process that will call it. Raises OptionError, which names the option."""
    module_name, _, name = named.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module's own code may raise anything
        raise OptionError(
            f"option {option!r}: module {module_name!r} cannot be imported ({type(error).__name__}: {error}); it must "
            "be where Spark's Python workers find it (installed there, or given by --py-files)"
        ) from None
    function = getattr(module, name, None)
    if not callable(function):
        raise OptionError(f"option {option!r}: module {module_name!r} has no function {name!r}")
    loaded: Callable[..., object] = function
    return loaded
