"""Sets of topic names against Python's own `re`, name by name."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_inputs import examples

from kafkasource.mirror.flow import pattern_of
from kafkasource.mirror.names import Names, NotUnderstood
from kafkasource.options.java_regex import compile_java

SHORT = ["".join(letters) for size in range(1, 5) for letters in itertools.product("ab.", repeat=size)]
PATTERNS = (
    *["a", "a.*", ".*", r"a\.b", "(a|b)+", "a?b{1,2}", "[^a]*", r"\w+", "[ab.]{2,}", "^a.*b$", "(?!a).*", "(?=a).."],
    *["(?!a$|b$).+", r"^(?!(?:a\.)*b\..*$).*$", "(?i)A.*", ".+?b", "", "a||b", r"\Qa.\E.*", r"[^\w].*", "(?!.*b)a.*"],
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_set_holds_the_names_in_which_the_pattern_is_found(pattern):
    names = Names()
    one = names.matching(pattern)
    compiled = compile_java(pattern)
    for name in SHORT:
        (just_this,) = [names.matching(f"^{re.escape(name)}$")]
        there = names.example([(one, ""), (just_this, "")])
        assert there == (name if compiled.search(name) else None)


pieces = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "(a|b)", "a*", ".*", "(?!a)", "b+", "(ab)?"])
patterns = st.lists(pieces, min_size=1, max_size=4).map("".join)


@given(wanted=patterns, excluded=patterns, prefix=st.text("ab.", max_size=2), suffix=st.text("ab.", max_size=2))
@settings(max_examples=examples(150), deadline=None)
def test_a_shortest_name_is_found_if_and_only_if_there_is_one(wanted, excluded, prefix, suffix):
    """In one set between prefix and suffix, and not in another."""
    names = Names()
    within, outside = names.matching(f"^(?:{wanted})$"), names.matching(pattern_of([excluded], []))
    found = names.example([(names.after(within, prefix), suffix)], [[(outside, "")]])

    def there(name):
        in_pattern = re.fullmatch(wanted, prefix + name + suffix)
        return in_pattern and not re.search(pattern_of([excluded], []), name)

    shorter = [name for name in SHORT if there(name)]
    if found is None:
        assert not shorter
    else:
        assert there(found)
        assert not shorter or len(shorter[0]) >= len(found)


@given(wanted=patterns, texts=st.lists(st.text("ab.", min_size=1, max_size=2), max_size=2))
@settings(max_examples=examples(100), deadline=None)
def test_what_may_follow_some_texts_is_all_that_gives_a_name_of_the_set_behind_them(wanted, texts):
    names = Names()
    after = names.after_some(names.matching(f"^(?:{wanted})$"), texts)
    chains = ["".join(chain) for size in range(4) for chain in itertools.product(texts, repeat=size)]
    for name in SHORT[:39]:
        if any(re.fullmatch(wanted, chain + name) for chain in chains):
            assert names.example([(after, ""), (names.matching(f"^{re.escape(name)}$"), "")]) == name


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?<=a)b", r"\ba", "a|^b", "(a(b|$))+"])
def test_what_no_set_can_be_made_of_is_refused(pattern):
    with pytest.raises(NotUnderstood):
        Names().matching(pattern)


@pytest.mark.parametrize("pattern", [".*", "a*", "(?:ab)*"])
def test_the_empty_text_is_no_name(pattern):
    names = Names()
    assert names.example([(names.matching(f"^(?:{pattern})$"), "")]) == ("ab" if "b" in pattern else "a")
    assert names.example([]) == "a"
    assert names.example([(names.matching("^(?:)$"), "")]) is None
