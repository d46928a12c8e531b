"""Pages and their files as they are in the package. `common.css` and `common.js` are what our pages share."""

from __future__ import annotations

from importlib.resources import files


def with_common_parts(page: str) -> str:
    """A page of one file: the common parts in place of the comments that name them."""
    for name in ("common.css", "common.js"):
        page = page.replace(f"/* {name} */", common(name), 1)
    return page


def common(name: str) -> str:
    return (files("kafkasource.tools.web") / name).read_text()
