"""The drawings of the package in the documents are those of the import contracts; each room says what it is."""

import rooms


def test_the_drawing_of_the_layers_is_that_of_the_import_contracts():
    text = (rooms.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"<!-- layers -->\n{rooms.drawing()}\n<!-- end -->" in text, "make readme renews it"


def test_the_table_of_rooms_has_what_each_room_says_of_itself():
    text = (rooms.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"<!-- rooms -->\n{rooms.markdown_table()}\n<!-- end -->" in text, "make readme renews it"


def test_each_room_says_what_it_is():
    assert rooms.without_docstring() == []


def test_each_room_at_the_top_has_a_layer():
    in_layers = {name for layer in rooms.layers() for name in layer}
    assert {path.parent.name for path in rooms.PACKAGE.glob("*/__init__.py")} <= in_layers
