"""What readers tell of their records comes back as it was, also when one is killed in the middle of a line."""

from __future__ import annotations

from lab.campaign import lines
from lab.campaign.checker import Record
from lab.campaign.lines import Told

FIRST = Record(0, 1, None, b"\x00\xff", (("h", None), ("h", b"1")))
SECOND = Record(3, 1 << 40, b"", b"", ())


def test_records_come_back_once_and_as_they_were(tmp_path):
    file = tmp_path / "told"
    told = Told(file)
    assert list(told.more()) == []
    with lines.append_to(str(file)) as out:
        lines.write(out, [FIRST])
        assert list(told.more()) == [FIRST]
        lines.write(out, [SECOND, FIRST])
        assert list(told.more()) == [SECOND, FIRST]
    assert list(told.more()) == []


def test_a_line_that_a_killed_writer_did_not_end_spoils_no_other(tmp_path):
    file = tmp_path / "told"
    with lines.append_to(str(file)) as out:
        lines.write(out, [FIRST, SECOND])
    whole = file.read_bytes()
    for cut in range(len(whole)):
        file.write_bytes(whole[:cut])
        told = Told(file)
        found = list(told.more())
        with lines.append_to(str(file)) as out:
            lines.write(out, [FIRST, SECOND])
        found += told.more()
        assert found[-2:] == [FIRST, SECOND]
        assert found[:-2] == [FIRST, SECOND][: len(found) - 2]
