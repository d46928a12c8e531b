"""Secrets do not print, and references say where a secret lies. Kafka's providers are the oracle for what they mean."""

import copy
import os
import pickle
from pathlib import Path

import pytest
from kafka_security import ask, text_of

from kafkasource.errors import OptionError
from kafkasource.kafka.security.secrets import References, Secret, has_reference, trimmed

ENVIRONMENT = {"USER_A": "alice", "USER_B": "b${env:USER_A}", "X.y": "", "C": "p\\q"}


def test_a_secret_prints_nowhere():
    secret = Secret("geheim")
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>20}",
        f"{secret:>20}",
        f"{[secret]}",
    ]
    shown += [repr(pickle.loads(pickle.dumps(secret))), repr(copy.deepcopy(secret)), str(ValueError(secret))]
    assert not any("geheim" in text for text in shown)
    assert all("[hidden]" in text for text in shown)


def test_a_secret_is_its_text():
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert pickle.loads(pickle.dumps(Secret("a"))).reveal() == "a"
    assert (bool(Secret("")), bool(Secret("x"))) == (False, True)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "creds.properties").write_text("# x\nuser = bob\npassword=s3\\u00e9 \nempty=\n")
    (tmp_path / "key").write_text("whole\nfile\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "key").write_text("inner")
    return tmp_path


@pytest.mark.peers
def test_references_mean_what_they_mean_to_kafka(folder):
    creds = folder / "creds.properties"
    texts = [
        "plain",
        "${env:USER_A}",
        "${env:USER_B}",  # not searched again
        "a${env:USER_A}b${env:C}c",
        "${env:X.y}",
        "$ ${env:USER_A}}",
        "${{env:USER_A}",
        f"${{file:{creds}:user}}",
        f"'${{file:{creds}:password}}'",
        f"${{file:{creds}:empty}}${{env:USER_A}}",
        f"${{dir:{folder}:key}}",
        f"${{dir:{folder}/inner/..:key}}",
        "${vault:secret/kafka:password}",
        "${other:x}",
        "${file:password}",
        "${USER_A}",
        "${env:",
    ]
    answers = ask([["resolve", text, "", ""] for text in texts])
    for text, answer in zip(texts, answers, strict=True):
        assert References().resolve(text, ENVIRONMENT) == text_of(answer), text


@pytest.mark.peers
def test_blanks_around_a_value_count_as_little_as_in_kafka():
    texts = ["changeit \n", "\x00\x1f a b\t", "\u00a0a\u2003", "\x7fa\x85", " ", ""]
    answers = ask([["trim", text] for text in texts])
    assert [trimmed(text) for text in texts] == [text_of(answer) for answer in answers]


def test_a_file_that_ends_with_a_newline_is_a_password_without_it(tmp_path):
    """References are resolved first and values trimmed then, as AbstractConfig does it."""
    (tmp_path / "storepass").write_text("changeit\n")
    options = {
        "ssl.truststore.password": f"${{dir:{tmp_path}:storepass}}",
        "ssl.key.password": "${env:KEY}",
        "a": " b ",
    }
    resolved = References().resolve_all(options, {"KEY": " k k "})
    assert resolved == {"ssl.truststore.password": "changeit", "ssl.key.password": "k k", "a": "b"}


@pytest.mark.peers
def test_what_kafka_does_not_allow_is_refused(folder):
    """Kafka leaves such a reference as it is, as it does with one to nothing: the reference becomes the password."""
    creds = f"${{file:{folder}/creds.properties:user}}"
    cases = [
        ("${env:USER_A}", "USER_.*", str(folder), True),
        ("${env:C}", "USER_.*", "", False),
        ("${env:USER_A}", "USER_", "", False),
        ("${env:NONE}", "", "", False),
        (creds, "", str(folder), True),
        (creds, "", f"/usr,{folder}/creds.properties", True),
        (creds, "", f"{folder}/inner", False),
        (creds, "", f"{folder}/cred", False),
        (f"${{file:{folder}/inner/../creds.properties:user}}", "", f"{folder}/inner", False),
        (f"${{dir:{folder}:key}}", "", f"{folder}/inner", False),
        (f"${{dir:{folder}/inner:key}}", "", str(folder), True),
        (f"${{dir:{folder}:inner/key}}", "", "", False),
        (f"${{dir:{folder}:none}}", "", "", False),
        (f"${{file:{folder}/none:user}}", "", "", False),
        (f"${{file:{folder}/creds.properties:none}}", "", "", False),
    ]
    answers = ask([["resolve", *map(str, case[:3])] for case in cases])
    for (text, pattern, paths, resolves), answer in zip(cases, answers, strict=True):
        allowed = (paths,) if paths and "," not in paths else tuple(paths.split(",")) if paths else None
        references = References(pattern or None, allowed, allowed)
        if resolves:
            assert references.resolve(text, ENVIRONMENT) == text_of(answer) != text
        else:
            assert answer == "!ConfigException" or text_of(answer) == text
            with pytest.raises(OptionError) as raised:
                references.resolve(text, ENVIRONMENT)
            assert text in str(raised.value)


def test_the_machine_narrows_what_an_option_allows(folder):
    creds = f"${{file:{folder}/creds.properties:user}}"
    of_machine = {**ENVIRONMENT, "KAFKASOURCE_SECRETS_ENV": "USER_A", "KAFKASOURCE_SECRETS_PATHS": f"{folder}/inner"}
    assert References().resolve("${env:USER_A}", of_machine) == "alice"
    assert References().resolve(f"${{dir:{folder}/inner:key}}", of_machine) == "inner"
    for text, place in ((creds, "KAFKASOURCE_SECRETS_PATHS"), ("${env:USER_B}", "KAFKASOURCE_SECRETS_ENV")):
        with pytest.raises(OptionError, match=place):
            References("USER_.*", (str(folder),)).resolve(text, of_machine)


def test_an_option_that_cannot_be_resolved_is_named_and_no_value_is(folder):
    (folder / "bad.properties").write_text("password=geheim\\u12")
    for text in ("${env:NONE}", f"${{file:{folder}/bad.properties:password}}", f"${{dir:{folder}:none}}"):
        with pytest.raises(OptionError, match=r"kafka\.sasl\.password.*\$\{") as raised:
            References().resolve_all({"sasl.username": "${env:USER_A}", "sasl.password": text}, ENVIRONMENT)
        assert not {"geheim", "alice"} & set(str(raised.value).split())
    assert References().resolve_all({"a": "${env:USER_A}", "b": "c"}, ENVIRONMENT) == {"a": "alice", "b": "c"}


def test_a_user_and_a_password_of_one_file_belong_together_while_it_is_replaced(tmp_path, monkeypatch):
    file, later = tmp_path / "login.properties", tmp_path / "later.properties"
    file.write_text("user=alice\npassword=of alice\n")
    later.write_text("user=bob\npassword=of bob\n")
    open_file = Path.open

    def open_and_replace(path, *how):
        opened = open_file(path, *how)
        if later.exists():
            later.replace(file)
        return opened

    monkeypatch.setattr(Path, "open", open_and_replace)
    options = {"sasl.username": f"${{file:{file}:user}}", "sasl.password": f"${{file:{file}:password}}"}
    assert References().resolve_all(options) == {"sasl.username": "alice", "sasl.password": "of alice"}
    assert References().resolve_all(options) == {"sasl.username": "bob", "sasl.password": "of bob"}


def test_a_file_of_spark_is_found_by_its_name(folder, monkeypatch):
    files = pytest.importorskip("pyspark.core.files").SparkFiles
    monkeypatch.setattr(files, "_is_running_on_worker", True)
    monkeypatch.setattr(files, "_root_directory", str(folder))
    assert References().resolve("${file:creds.properties:user}") == "bob"


def test_a_file_that_is_too_large_or_no_text_is_refused(folder):
    (folder / "large").write_bytes(b"x" * (1 << 20) + b"x")
    (folder / "binary").write_bytes(b"\xff\xfe")
    for name in ("large", "binary"):
        with pytest.raises(OptionError, match=name):
            References().resolve(f"${{dir:{folder}:{name}}}")


def test_a_text_that_is_no_unicode_is_refused_by_its_reference_and_option(tmp_path):
    """UnicodeEncodeError, which would come of it later, has the password as its `object`."""
    (tmp_path / "halves.properties").write_text("one=geheim\\ud83d\nboth=\\ud83d\\ude00\n")
    latin = os.fsdecode(b"geheim\xe9")  # as os.environ has what a shell of another locale exports
    for text, named in (
        ("${env:LATIN}", "${env:LATIN}"),
        (f"${{file:{tmp_path}/halves.properties:one}}", "kafka.sasl.password"),
        (latin, "kafka.sasl.password"),
    ):
        with pytest.raises(OptionError) as raised:
            References().resolve_all({"sasl.password": text}, {"LATIN": latin})
        assert named in str(raised.value)
        assert "geheim" not in f"{raised.value} {raised.value.args} {raised.value.__cause__}"
        assert str(raised.value).isprintable()
    both = References().resolve_all({"sasl.password": f"${{file:{tmp_path}/halves.properties:both}}"})
    assert both == {"sasl.password": "\N{GRINNING FACE}"}


def test_options_of_kafkas_providers_are_taken():
    given = {
        "config.providers.env.param.allowlist.pattern": "A.*",
        "config.providers.file.param.allowed.paths": "/a, /b",
        "sasl.mechanism": "PLAIN",
    }
    assert References.of(given) == References("A.*", ("/a", "/b"), None)
    for key, text in (("env.param.allowlist.pattern", "("), ("dir.param.allowed.paths", "relative")):
        with pytest.raises(OptionError):
            References.of({f"config.providers.{key}": text})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("$${env:USER_A}", "${env:USER_A}"),
        ("a$${file:/p:k}b${env:USER_A}$${dir:/p:k}", "a${file:/p:k}balice${dir:/p:k}"),
        ("$$${env:USER_A}", "$${env:USER_A}"),
        ("p$$w$${USER_A}$${vault:a:b}$", "p$$w$${USER_A}$${vault:a:b}$"),  # nothing that would be resolved
    ],
)
def test_a_second_dollar_before_a_reference_makes_it_text(written, meant):
    """docs/secrets.md. A password may have any characters."""
    assert References().resolve(written, ENVIRONMENT) == meant
    assert has_reference(written) == ("alice" in meant)


@pytest.mark.parametrize("text", ["a${env:b}c", "${file:/none:b}", "${dir:/none:b}", "${env:a:b}"])
def test_the_error_of_a_password_that_looks_like_a_reference_says_how_to_write_it(text):
    with pytest.raises(OptionError, match=r"kafka\.sasl\.password.*not a reference.*write \$\$\{"):
        References().resolve_all({"sasl.password": text}, {})


def test_a_reference_is_told_from_other_text():
    assert all(map(has_reference, ("${env:A}", "x${file:/a:b}", "${dir:/a:b}")))
    assert not any(map(has_reference, ("", "$env", "${A}", "${vault:a:b}", "${file:b}")))
