"""Secrets: text that does not print, and references to where it lies, as Kafka's configuration providers read them.

    ${env:NAME}                 an environment variable                                 (KIP-887)
    ${file:/path:key}           a value in a file of properties                         (KIP-297)
    ${dir:/folder:file}         the whole of a file, as Kubernetes mounts secrets       (KIP-421)

A reference may stand anywhere in a value. Nothing resolves it before `References.resolve`, which the process that
connects calls: plans, pickles and logs hold the reference, not what it stands for. What it stands for is not searched
for references again. Text in braces with another word before the colon is left alone, as Kafka does. Unlike Kafka, a
second dollar before a reference makes it text: `$${env:NAME}` is the password `${env:NAME}`.

Blanks around a whole value do not count, as in Java's clients: a file that ends with a newline is a password without.

Unlike Kafka, a reference to what is not there is an error: Kafka would take the reference itself for the password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkasource.errors import OptionError
from kafkasource.kafka.security import properties
from kafkasource.kafka.security.shipped_files import find_file

ENVIRONMENT_ALLOWED = "KAFKASOURCE_SECRETS_ENV"  # a regular expression: the variables that references may name
PATHS_ALLOWED = "KAFKASOURCE_SECRETS_PATHS"  # files and folders that references may name, separated by commas

_REFERENCE = re.compile(r"(\$?)(\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\})")  # with the dollar that makes it text
_MOST_BYTES = 1 << 20  # of a file that a reference names
_JAVAS_BLANKS = "".join(map(chr, range(0x21)))  # what String.trim cuts; Python's strip has other characters


class Secret:
    """Text that shows as `[hidden]` wherever it is printed. Equal and hashable by value; pickles with its text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself: for the wire, never for a message."""
        return self._text

    def __repr__(self) -> str:
        return "[hidden]"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format("[hidden]", spec)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._text,)


@dataclass(frozen=True)
class References:
    """How this process resolves references, and which it may.

    The two lists are an option's and the machine's, which its administrator sets by the environment variables
    `KAFKASOURCE_SECRETS_ENV` and `KAFKASOURCE_SECRETS_PATHS`: a reference must be allowed by both.
    """

    environment_pattern: str | None = None  # None: all variables; `config.providers.env.param.allowlist.pattern`
    file_paths: tuple[str, ...] | None = None  # None: all; `config.providers.file.param.allowed.paths`
    folder_paths: tuple[str, ...] | None = None  # None: all; `config.providers.dir.param.allowed.paths`

    @classmethod
    def of(cls, options: Mapping[str, str]) -> References:
        """From Kafka's names of the parameters of its providers. Raises OptionError."""
        pattern = options.get("config.providers.env.param.allowlist.pattern")
        if pattern is not None:
            _compiled(pattern, "config.providers.env.param.allowlist.pattern")
        paths = [options.get(f"config.providers.{name}.param.allowed.paths") for name in ("file", "dir")]
        file_paths, folder_paths = (None if text is None else _paths(text) for text in paths)
        return cls(pattern, file_paths, folder_paths)

    def resolve(self, text: str, environment: Mapping[str, str] | None = None) -> str:
        """`text` with what its references stand for. Raises OptionError, which names the reference, not the value.

        `environment`: that of the process where it is None. A file is read again by each call.
        """
        if "${" not in text:
            return text
        return self._resolve(text, os.environ if environment is None else environment, _Files())

    def resolve_all(self, options: Mapping[str, str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """Each value resolved, then trimmed. Raises OptionError, which names the option and the reference.

        A file is read once for all of them: a user and a password from one file belong together, also while somebody
        puts another file in its place.
        """
        resolved, files = {}, _Files()
        for name, text in options.items():
            try:
                resolved[name] = trimmed(self._resolve(text, os.environ if environment is None else environment, files))
            except OptionError as error:
                raise OptionError(f"option 'kafka.{name}': {error}") from None
            if not _is_unicode(resolved[name]):
                raise OptionError(
                    f"option 'kafka.{name}': the value has half of a character (\\ud800 to \\udfff), which UTF-8 "
                    "cannot hold. Write the character as UTF-8, or both of its halves"
                )
        return resolved

    def _resolve(self, text: str, environment: Mapping[str, str], files: _Files) -> str:
        return _REFERENCE.sub(lambda match: self._value(match, environment, files), text)

    def _value(self, match: re.Match[str], environment: Mapping[str, str], files: _Files) -> str:
        escape, reference, provider, path, key = match.groups()
        if not _is_reference(match):
            return match[0]
        if escape:
            return reference
        try:
            if provider == "env":
                return self._variable(reference, path, key, environment)
            if provider == "file":
                return self._of_properties(reference, path, key, environment, files)
            return self._of_folder(reference, path, key, environment, files)
        except OptionError as error:
            raise OptionError(f"{error}. If this is not a reference but the value itself, write $${{ for ${{") from None

    def _variable(self, reference: str, path: str | None, name: str, environment: Mapping[str, str]) -> str:
        if path:
            raise OptionError(f"{reference}: write ${{env:NAME}}, with nothing but the variable's name")
        for pattern, place in (
            (self.environment_pattern, "option kafka.config.providers.env.param.allowlist.pattern"),
            (environment.get(ENVIRONMENT_ALLOWED), f"environment variable {ENVIRONMENT_ALLOWED}"),
        ):
            if pattern is not None and not _compiled(pattern, place).fullmatch(name):
                raise OptionError(f"{reference}: the {place} does not allow this variable")
        if name not in environment:
            raise OptionError(
                f"{reference}: there is no such environment variable in the process that connects to Kafka. Set it on "
                f"the driver and, by spark.executorEnv.{name}, on the executors"
            )
        if not _is_unicode(environment[name]):  # Python keeps a byte that is no UTF-8 as half of a character
            raise OptionError(
                f"{reference}: the environment variable is not UTF-8 in the process that connects to Kafka. Export it "
                "from a shell whose locale is UTF-8"
            )
        return environment[name]

    def _of_properties(self, reference: str, path: str, key: str, environment: Mapping[str, str], files: _Files) -> str:
        file = _allowed(reference, find_file(path), self.file_paths, "file", environment)
        text = files.read(reference, file)
        try:
            values = properties.parse(text)
        except OptionError as error:
            raise OptionError(f"{reference}: {error}") from None
        if key not in values:
            raise OptionError(f"{reference}: the file has no such key")
        return values[key]

    def _of_folder(self, reference: str, path: str, name: str, environment: Mapping[str, str], files: _Files) -> str:
        if not name or "/" in name or name in (".", ".."):
            raise OptionError(f"{reference}: after the folder, write the name of a file in it, not a path")
        folder = _allowed(reference, find_file(path), self.folder_paths, "dir", environment)
        return files.read(reference, folder / name)


def trimmed(text: str) -> str:
    """A value of an option without the blanks around it: Java's ConfigDef cuts them, once references are resolved."""
    return text.strip(_JAVAS_BLANKS)


def has_reference(text: str) -> bool:
    """Whether something in the text would be resolved."""
    return any(not match[1] and _is_reference(match) for match in _REFERENCE.finditer(text))


def _is_reference(match: re.Match[str]) -> bool:
    """Whether one of the providers is named, as Kafka wants it."""
    return match[3] == "env" or (match[3] in ("file", "dir") and bool(match[4]))


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 has bytes for it. Python's own error would hold the text."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _compiled(pattern: str, place: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise OptionError(f"{place}: not a regular expression: {error}") from None


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in text.split(",") if path.strip())
    for path in paths:
        if not os.path.isabs(path):
            raise OptionError(f"allowed paths of references are absolute, not {path!r}")
    return paths


def _allowed(
    reference: str, path: Path, by_option: tuple[str, ...] | None, provider: str, environment: Mapping[str, str]
) -> Path:
    """The path, if both lists allow it. A `..` counts for what it leads to. A link counts for where it lies: secrets
    that Kubernetes mounts are links."""
    absolute = Path(os.path.normpath(path.absolute()))
    of_machine = environment.get(PATHS_ALLOWED)
    for allowed, place in (
        (by_option, f"option kafka.config.providers.{provider}.param.allowed.paths"),
        (None if of_machine is None else _paths(of_machine), f"environment variable {PATHS_ALLOWED}"),
    ):
        if allowed is not None and not any(absolute.is_relative_to(os.path.normpath(prefix)) for prefix in allowed):
            raise OptionError(f"{reference}: the {place} does not allow this path")
    return absolute


class _Files:
    """Contents of files, read once while options are resolved."""

    def __init__(self) -> None:
        self._texts: dict[Path, str] = {}

    def read(self, reference: str, file: Path) -> str:
        if file not in self._texts:
            self._texts[file] = _read(reference, file)
        return self._texts[file]


def _read(reference: str, file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise OptionError(
            f"{reference}: {file} cannot be read on this machine ({error.strerror or type(error).__name__}). Ship it "
            "to the executors with --files and give its name alone, or mount it there"
        ) from None
    if len(data) > _MOST_BYTES:
        raise OptionError(f"{reference}: {file} is larger than {_MOST_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise OptionError(f"{reference}: {file} is not UTF-8") from None
