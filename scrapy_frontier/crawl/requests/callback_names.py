"""The callbacks of a spider by name: what a payload may say, and nothing else."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from scrapy import Spider

from ..scrapy_internals import compat
from .class_paths import Unstorable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import MethodType

# What every spider has is no callback, but for these.
_CALLBACKS_OF_SCRAPY = frozenset(("parse", "_parse"))


class Unreadable(ValueError):
    """A payload that cannot be turned into a request of this spider: its page is set aside, the crawl goes
    on."""


class Callbacks:
    """The methods of *spider*, and of its attributes, by the names under which they are found again."""

    def __init__(self, spider: Spider) -> None:
        self._spider = spider
        self._names: dict[Any, str] = {}
        self._methods: dict[str, Callable[..., Any]] = {}

    def named(self, name: str) -> Callable[..., Any]:
        """The method called *name*, looked up once; raises `Unreadable` where the spider has none it may be
        given."""
        method = self._methods.get(name)
        if method is None:
            found = own_method(self._spider, name)
            if found is None:
                raise Unreadable(f"spider {self._spider.name!r} has no callback {name!r}")
            method = self._methods[name] = found
        return method

    def name_of(self, callback: Callable[..., Any]) -> str:
        """The name under which *callback* is found again; raises `Unstorable` if there is none, or the spider
        kept another under it before. Looked up once."""
        name = self._names.get(callback)
        if name is None:
            name = self._find(callback)
            if self._methods.setdefault(name, callback) != callback:
                raise Unstorable(f"callback {callback!r} is not all that the spider keeps as {name!r}")
            self._names[callback] = name
        return name

    def may_be_called_again(self, callback: Callable[..., Any] | None) -> bool:
        """Whether another request may be given *callback*, which is a method of the spider then.

        Of what is none nobody can tell: the shell waits for one call, and a second one fails.
        """
        try:
            return callback is None or bool(self.name_of(callback))
        except (Unstorable, TypeError):  # one without a hash
            return False

    def reached_by(self, callback: Callable[..., Any] | None, rule: Any) -> Callable[..., Any] | None:
        """`compat.callback_in_the_end` of these; None for what is no method of the spider."""
        reached = compat.callback_in_the_end(self._spider, callback, rule)
        return reached if self.may_be_called_again(reached) else None

    def _find(self, callback: Any) -> str:
        spider = self._spider
        function = getattr(callback, "__func__", None)  # a partialmethod has none
        if function is not None and getattr(callback, "__self__", None) in (spider, type(spider)):
            names = sorted(dir(spider), key=vars(spider).__contains__)  # what a spider keeps it may change
            for name in names:
                member = own_method(spider, name)
                if member is not None and member.__func__ is function:
                    return name
        for name, member in vars(spider).items():
            if inspect.ismethod(member) and member == callback and own_method(spider, name) is not None:
                return name
        raise Unstorable(f"callback {callback!r} is not a method of the spider")


def own_method(spider: Spider, name: str) -> MethodType | None:
    """The method of the class of *spider* called *name*, or that the spider keeps under it; else None.

    No path leads further, what all spiders have is no callback, and no property is looked at.
    """
    if name.startswith("__") or (hasattr(Spider, name) and name not in _CALLBACKS_OF_SCRAPY):
        return None
    found = vars(spider).get(name)
    if found is None:
        kept = inspect.getattr_static(type(spider), name, None)
        if not (callable(kept) or isinstance(kept, classmethod)):  # a property, say
            return None
        try:
            found = getattr(spider, name, None)
        except Exception:  # whatever stands there is no method
            return None
    return found if inspect.ismethod(found) else None
