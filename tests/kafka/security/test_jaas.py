"""`sasl.jaas.config`: Kafka's own parser is the oracle, and no error shows what stands there."""

import pickle
import random

import pytest
from kafka_security import ask, pairs_of, text_of

from kafkasource.errors import OptionError
from kafkasource.kafka.security.sasl import jaas, mechanisms

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TEXTS = [
    f'{PLAIN} required username="alice" password="geheim";',
    f"{PLAIN} required username='a\"b' password='c\\'d';",
    f"kafkashaded.{PLAIN} REQUIRED username=alice password=geheim ;",
    f'{SCRAM} required username="a" password="\\\\\\"x\\\\" tokenauth="true";',
    f'{SCRAM} required username="a" password="\\n\\t\\101\\477\\7\\8\\u00e9";',
    f"{PLAIN} optional a=b-c_d$e.f g=h1;  ",
    f'\n {PLAIN}\n\trequired // a comment "\n a /* b="c" */ = "d"; /* the end',
    f'{PLAIN} required a="b" a="c";',
    f'{PLAIN} required "a b"="c";',
    f'{PLAIN} required a=ünïcode b="€ 😀";',
    f"{PLAIN} required;",
    f'"{PLAIN}" "required" a=b;',
    f'{PLAIN} required a="b;',
    f'{PLAIN} required a="b\n;',
    f'{PLAIN} required a="b\nc";',
    f"{PLAIN} required a=1x;",
    f"{PLAIN} required a=-x;",
    f"{PLAIN} required a=x-1;",
    f"{PLAIN} required a=a/b;",
    f"{PLAIN} required a=a@b;",
    f"{PLAIN} required a=a+b;",
    f"{PLAIN} required a=b",
    f"{PLAIN} required a=;",
    f"{PLAIN} required a b;",
    f"{PLAIN} required =b;",
    f"{PLAIN} a=b;",
    f"{PLAIN}",
    "",
    ";",
    f"{PLAIN} required a=b; {PLAIN} required a=b;",
    f"{PLAIN} required a=b;;",
    f'{PLAIN} required a="b\\',
    f'{PLAIN} required a="b\\";',
]
OF_MODULES = [
    "",
    "x ",
    'c="1" ',
    "a=b ",
    "d='e\\'' ",
    'f="\\\\" ',
    "9 ",
    "-",
    "/",
    "\n",
    ";",
    "g = h ",
    "= ",
    '"',
    "é=ü ",
]


def ours(text):
    try:
        module = jaas.parse(text)
    except OptionError as error:
        return str(error)
    return {key: value.reveal() for key, value in module.options.items()}


@pytest.mark.peers
@pytest.mark.slow
def test_a_text_means_what_it_means_to_kafka():
    rng = random.Random(11)
    texts = TEXTS + [
        f"{PLAIN} required " + "".join(rng.choices(OF_MODULES, k=rng.randint(1, 6))) + rng.choice(";;;x")
        for _ in range(1500)
    ]
    taken = 0
    for text, answer in zip(texts, ask([["jaas", text] for text in texts]), strict=True):
        if answer.startswith("!"):
            assert isinstance(ours(text), str), text
            continue
        name, ok, *words = answer.split()
        assert text_of(name).endswith(PLAIN) or text_of(name).endswith(SCRAM)
        assert ok == "ok"
        theirs = pairs_of(words)
        if "null" in theirs:  # an option without a name: Java keeps it, we refuse it
            assert isinstance(ours(text), str)
            continue
        assert ours(text) == theirs, text
        taken += 1
    assert taken > 100


@pytest.mark.parametrize(
    ("name", "served"),
    [
        (PLAIN, ["PLAIN"]),
        (SCRAM, ["SCRAM-SHA-256", "SCRAM-SHA-512"]),
        ("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule", ["OAUTHBEARER"]),
        ("com.sun.security.auth.module.Krb5LoginModule", ["GSSAPI"]),
        ("software.amazon.msk.auth.iam.IAMLoginModule", ["OAUTHBEARER"]),
    ],
)
def test_the_modules_are_known_with_any_prefix(name, served):
    for prefix in ("", "kafkashaded.", "shadeddatabricks.x."):
        assert mechanisms.of_module(jaas.parse(f"{prefix}{name} required;")) == served


@pytest.mark.parametrize("name", ["com.acme.PlainLoginModule", f"x{PLAIN}", f"{PLAIN}.x"])
def test_another_module_is_an_error(name):
    with pytest.raises(OptionError, match="Java class"):
        mechanisms.of_module(jaas.parse(f"{name} required;"))


def test_an_error_names_the_place_and_nothing_else():
    for text, at in (
        (f'{PLAIN} required password="geheim" username=7up;', "7up"),
        (f"{PLAIN} required password=geheim@home;", "@home"),
        (f'{PLAIN} required password "geheim";', '"geheim'),
        (f'{PLAIN} geheim password="geheim";', "geheim "),
    ):
        with pytest.raises(OptionError) as raised:
            jaas.parse(text)
        assert f"character {text.index(at) + 1} " in str(raised.value), text
        assert "geheim" not in str(raised.value)
        assert "7up" not in str(raised.value)


def test_a_module_does_not_print_its_options():
    module = jaas.parse(f'{PLAIN} required username="alice" password="geheim";')
    assert "geheim" not in f"{module} {module!r} {pickle.loads(pickle.dumps(module))}"
    assert module.text("username") == "alice"
    assert module.text("none") is None


def test_text_without_end_costs_no_time():
    for text in ('"' + "\\" * 300_000, "/*" * 300_000, "-" * 300_000, "x" * (2 << 20)):
        with pytest.raises(OptionError):
            jaas.parse(text)
