"""A function of the user's that gives tokens: `module:function`, imported in the process that connects."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass

from kafkasource.errors import OptionError, TokenNotAvailable, TokenRefused
from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.tokens.token import AccessToken, token_of

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class FunctionToken:
    """Tokens of a user's function. It has no arguments and returns the token, or the token and its life in seconds."""

    name: str
    waits = True

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise OptionError("option 'kafka.sasl.oauthbearer.token.function': write module:function")

    @property
    def origin(self) -> str:
        return f"the function {self.name} of 'kafka.sasl.oauthbearer.token.function'"

    def fetch(self, http: HttpClient, now_s: float) -> AccessToken:
        module, _, function = self.name.partition(":")
        try:
            call = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError):
            raise OptionError(
                f"option 'kafka.sasl.oauthbearer.token.function': {self.name} cannot be imported in this process. Ship "
                "the module to the executors with --py-files"
            ) from None
        except Exception as error:  # the module's own code may raise anything, and its text may hold a secret
            raise OptionError(
                f"option 'kafka.sasl.oauthbearer.token.function': {self.name} cannot be imported in this process: "
                f"{module} raises {type(error).__name__}. What it needs, as environment variables, the executors must "
                "have, too"
            ) from None
        try:
            answer = call()
        except Exception as error:  # its text may hold the token
            raise TokenNotAvailable(f"{self.origin} raises {type(error).__name__} in place of a token") from None
        text, lifetime_s = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        if not isinstance(text, str) or not (lifetime_s is None or isinstance(lifetime_s, (int, float))):
            raise TokenRefused(f"{self.origin} returns neither a token as text, nor a pair of token and seconds")
        return token_of(text, now_s, lifetime_s)
