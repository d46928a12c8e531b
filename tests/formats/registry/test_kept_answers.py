"""A process keeps a registry's answers up to a number of bytes, and forgets those first that were used longest ago."""

from kafkasource.formats.registry.kept import KeptAnswers


def test_answers_beyond_the_bytes_are_forgotten_those_first_that_were_used_longest_ago():
    kept, asked = KeptAnswers(len, missing_s=0, most_bytes=10), []

    def get(key):
        def ask():
            asked.append(key)
            return key * 5

        return kept.get(key, ask)

    for key in "ab":
        assert get(key) == key * 5
    assert (get("a"), asked) == ("aaaaa", ["a", "b"])  # ten bytes are not too many
    get("c")
    asked.clear()
    assert [get(key) for key in "acb"] == ["aaaaa", "ccccc", "bbbbb"]
    assert asked == ["b"]
    kept.put("large", "x" * 11)
    assert kept.get("large", lambda: "not kept") == "x" * 11  # the last answer stays, whatever its size
