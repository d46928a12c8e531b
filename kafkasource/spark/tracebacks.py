"""An error that we raise on purpose reaches Spark's user without a traceback: its text says what to do.

Spark puts the traceback of a data source's error before the error's text, and prints all of it three times: in its
log, in the text of the error that the user's program gets, and as frames of that error. The lines of our code do not
help the user, and hide the line that does. `KAFKASOURCE_LOG=DEBUG` logs the traceback.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Callable, Iterator
from pickle import PickleError
from typing import Any, TypeVar

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.process import is_of_spark

T = TypeVar("T")

log = logging.getLogger("kafkasource.source")


def without_tracebacks(*methods: str) -> Callable[[type[T]], type[T]]:
    """Decorate a class so that errors of these methods reach the user without a traceback.

    Use it for methods that Spark calls in its own processes, which end with an error: planning, commits, tasks. A
    method may be a generator."""

    def decorate(cls: type[T]) -> type[T]:
        for name in methods:
            method = getattr(cls, name)
            wrap = _generator_without_traceback if inspect.isgeneratorfunction(method) else _without_traceback
            setattr(cls, name, wrap(_as_it_is(method) if name == "__getstate__" else method))
        return cls

    return decorate


def _without_traceback(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)  # Spark looks at the signature
    def call(*given: Any, **named: Any) -> Any:
        try:
            return method(*given, **named)
        except KafkaSourceError as error:
            _hide_traceback_of(error)
            raise

    return call


def _as_it_is(getstate: Callable[..., Any]) -> Callable[..., Any]:
    """Spark prints the traceback of an error that it meets while it pickles, and raises "PicklingError: Could not
    serialize object" with its text. It lets pickle's own errors pass: so ours become such errors, too."""

    @functools.wraps(getstate)
    def call(*given: Any) -> Any:
        try:
            return getstate(*given)
        except KafkaSourceError as error:
            if is_of_spark():
                error.__class__ = _also_of_pickle(type(error))
            raise

    return call


def _also_of_pickle(kind: type[KafkaSourceError]) -> type[KafkaSourceError]:
    """Make a class with the same name, because Spark shows the name."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind, PickleError), names)


def _generator_without_traceback(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(method)
    def call(*given: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from method(*given, **named)
        except KafkaSourceError as error:
            _hide_traceback_of(error)
            raise

    return call


def _hide_traceback_of(error: KafkaSourceError) -> None:
    # The user must fix an error that the user's function raised, so its traceback matters.
    explained = error.says_all and isinstance(error.__cause__, KafkaSourceError | None)
    if is_of_spark() and explained:
        log.debug("%s", error, exc_info=True)
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # pyspark's own; the process ends with this error
