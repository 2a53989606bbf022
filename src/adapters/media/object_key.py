"""Which texts name an object."""

from __future__ import annotations


def is_object_key(text: str) -> bool:
    """Whether every storage can have an object of this name: nothing empty, no step that leads elsewhere in a path."""
    return text != "" and not {".", ".."} & set(text.split("/"))
