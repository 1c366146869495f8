"""Classes by their names: what a payload may say of them, and that nothing is imported for it."""

from __future__ import annotations

import sys

from scrapy.utils.python import global_object_name


class Unstorable(ValueError):
    """A request holds something that is not plain data, or a callback that is no method of the spider."""


def class_path(cls: type) -> str:
    """The path (module.name) by which *cls* can be found again; raises `Unstorable` if there is none."""
    path = global_object_name(cls)
    try:
        found = class_at(path)
    except ValueError:
        found = None
    if found is not cls:
        raise Unstorable(f"class {path} cannot be found again")
    return path


def own_path(cls: type) -> str:
    """`class_path` of a class that is a value, or has objects that are; raises `Unstorable` for one of the
    standard library: some start processes, and a plugin calls what it finds in a ``meta``."""
    path = class_path(cls)
    package = path.partition(".")[0]
    if package in sys.stdlib_module_names and package != "builtins":
        raise Unstorable(f"class {path} of the standard library is not plain data")
    return path


def own_class_at(path: str) -> type:
    """The inverse of `own_path`; raises `ValueError` for any other path, also of a class that a module has
    from elsewhere."""
    cls = class_at(path)
    if own_path(cls) != path:
        raise ValueError(f"{path} is another class")
    return cls


def class_at(path: str) -> type:
    """The class *path* names, of a module that this project has imported; raise `ValueError` for any other.

    Nothing is imported: whoever wrote the path may be a stranger.
    """
    module, _, name = path.rpartition(".")
    if module not in sys.modules:
        raise ValueError(f"{path} is of a module that this project has not imported")
    found = vars(sys.modules[module]).get(name)  # no `getattr`: modules may import what is asked of them
    if not isinstance(found, type):
        raise ValueError(f"{path} is no class")
    return found
