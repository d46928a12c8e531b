"""Dead letters that a replay takes for done, over several runs, compared with a set of all offsets."""

from hypothesis import given
from hypothesis import strategies as st

from kafkasource.tools.admin.replay import Done

OFFSETS = st.sets(st.integers(0, 40), max_size=25)
RUNS = st.lists(st.tuples(st.sets(st.integers(0, 40)), st.integers(0, 30)), max_size=6)


@given(OFFSETS, RUNS)
def test_each_dead_letter_is_taken_once_whatever_runs_choose_and_wherever_they_end(offsets, runs):
    """A run chooses some offsets, and ends behind some rows: 0, where it has read no row of the partition."""
    committed, taken = (0, ""), []
    for chosen, rows in runs:
        done = Done.parse(*committed, "a test")
        for offset in [offset for offset in sorted(offsets) if offset >= committed[0]][:rows]:
            before = offset in done
            assert before == (offset in taken)
            now = not before and offset in chosen
            taken += [offset] * now
            done.add(offset, before or now)
        committed = done.committed
        assert all(offset in taken for offset in offsets if offset < committed[0])
    assert sorted(taken) == sorted(set(taken))
