"""Files of Java properties: Java itself says what is in them."""

import random

import pytest
from kafka_security import ask, pairs_of

from kafkasource.errors import OptionError
from kafkasource.kafka.security import properties

FILES = [
    "",
    "a=b",
    "a = b \nc:d\r\ne f\r g=\nh",
    "# no\n! no\n  # no\n a=b",
    "fruits  apple, banana, \\\n        pear, \\\n\tcherry",
    "a=b\\\n\nc=d",
    "a=b\\\n# no comment",
    "a\\=b\\:c\\ d=e\\=f",
    "a=\\u00e9\\t\\n\\q\\\\",
    "a=\\ud83d\\ude00",
    "=x\n:y",
    "a==b\na::c",
    "\\\na=b\n\\",
    "a=b\\",
    'sasl.jaas.config=org.X required \\\n  username="a" \\\n  password="b\\\\\\"c";',
]


@pytest.mark.peers
@pytest.mark.slow
def test_a_file_means_what_it_means_to_java():
    rng = random.Random(3)
    files = FILES + ["".join(rng.choices("ab=: \t\\\\\n\r#!\fé", k=rng.randint(1, 30))) for _ in range(1000)]
    for text, answer in zip(files, ask([["properties", text] for text in files]), strict=True):
        ok, *words = answer.split()
        assert ok == "ok"
        assert properties.parse(text) == pairs_of(words), repr(text)


def test_an_escape_that_is_none_names_the_line_and_nothing_of_the_value():
    with pytest.raises(OptionError, match="line 3") as raised:
        properties.parse("a=b\n\npassword=geheim\\u12x4")
    assert "geheim" not in str(raised.value)
