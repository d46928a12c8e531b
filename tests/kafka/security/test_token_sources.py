"""Tokens from a file and from a function of the user's."""

import pytest

from kafkasource.errors import OptionError, TokenNotAvailable, TokenRefused
from kafkasource.kafka.security.tokens.file import TokenFile
from kafkasource.kafka.security.tokens.function import FunctionToken

NOW = 1000.0


def test_a_file_is_read_each_time(tmp_path):
    source = TokenFile(str(tmp_path / "token"))
    with pytest.raises(TokenNotAvailable, match="token"):
        source.fetch(None, NOW)
    for text in ("one", "two"):
        (tmp_path / "token").write_text(f" {text}\n")
        assert source.fetch(None, NOW).value.reveal() == text
    for data in (b"", b"\xff", b"x" * 600_000):
        (tmp_path / "token").write_bytes(data)
        with pytest.raises((TokenNotAvailable, TokenRefused)):
            source.fetch(None, NOW)


def a_function(monkeypatch, tmp_path, body):
    (tmp_path / "my_tokens.py").write_text(f"def get():\n    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "my_tokens", raising=False)
    return FunctionToken("my_tokens:get")


def test_a_function_returns_a_token_or_a_token_and_its_life(monkeypatch, tmp_path):
    assert a_function(monkeypatch, tmp_path, "return 'abc'").fetch(None, NOW).value.reveal() == "abc"
    assert a_function(monkeypatch, tmp_path, "return 'abc', 60").fetch(None, NOW).expires_at_s == NOW + 60


def test_a_function_that_fails_shows_nothing_of_what_it_raised(monkeypatch, tmp_path):
    for body, error in (
        ("raise ValueError('geheim')", TokenNotAvailable),
        ("return b'geheim'", TokenRefused),
        ("return 'geheim', '60'", TokenRefused),
        ("return None", TokenRefused),
        ("return ''", TokenRefused),
    ):
        with pytest.raises(error) as raised:
            a_function(monkeypatch, tmp_path, body).fetch(None, NOW)
        assert "geheim" not in str(raised.value)
        assert raised.value.__cause__ is None
    for name in ("my_tokens:none", "no_such_module:get"):
        with pytest.raises(OptionError, match="--py-files"):
            FunctionToken(name).fetch(None, NOW)


def test_a_module_that_cannot_be_imported_for_another_reason_names_the_option_and_hides_what_it_raised(
    monkeypatch, tmp_path
):
    """The module may look for an environment variable that only the driver has."""
    source = a_function(monkeypatch, tmp_path, "return 'abc'")
    (tmp_path / "my_tokens.py").write_text("raise KeyError('geheim')")
    with pytest.raises(OptionError, match=r"token\.function.*my_tokens raises KeyError.*executors") as raised:
        source.fetch(None, NOW)
    assert "geheim" not in str(raised.value)
    assert raised.value.__cause__ is None
