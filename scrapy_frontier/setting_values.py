"""What a setting of ours may be: read it, or say what to set."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy.utils.misc import load_object

from .core.errors import FrontierError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings


_Number = TypeVar("_Number", int, float)
_MOST = sys.float_info.max  # all but infinity
_is_word = re.compile(r"[^\s,\[\]{}()'\"]+").fullmatch  # no list that could not be read, either


class FrontierSetting(FrontierError):
    """A setting has a value that makes no sense: the crawl does not begin. The message says what to set."""

    reason = "frontier_setting"


def number(settings: BaseSettings, name: str, default: _Number, least: float = 0) -> _Number:
    """A number of the kind of its *default*, which stands where nothing is set. Raises `FrontierSetting` for
    what is none, is infinite, or less than *least*."""
    value, kind = settings.get(name), type(default)
    wanted = f"a {'whole ' if kind is int else ''}number of at least {least:g}"
    return default if value is None else within(name, value, kind, least, _MOST, wanted)


def within(name: str, value: Any, kind: type[_Number], least: float, most: float, wanted: str) -> _Number:
    """*value* as a number of a *kind* that is no less than *least* and no more than *most*. Raises
    `FrontierSetting`, with *wanted* for what to set."""
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    is_cut = kind is int and isinstance(value, float) and number != value
    if number is None or is_cut or not least <= number <= most:
        raise FrontierSetting(f"{name} = {value!r}: set {wanted}")
    return number


def switch(settings: BaseSettings, name: str, default: bool) -> bool:
    """True or False, as Scrapy reads such settings; *default* where nothing is set. Raises
    `FrontierSetting`."""
    value = settings.get(name)
    if value is None:
        return default
    try:
        return settings.getbool(name)
    except (TypeError, ValueError, OverflowError) as error:
        raise FrontierSetting(f"{name} = {value!r}: set True or False") from error


def of_scrapy(settings: BaseSettings, name: str, kind: type[_Number]) -> _Number:
    """A number that is a setting of Scrapy's, as Scrapy reads it. Raises `FrontierSetting` for what is
    none."""
    value = settings.get(name, 0)
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError) as error:
        wanted = "a whole number" if kind is int else "a number"
        raise FrontierSetting(f"{name} = {value!r}: set {wanted}") from error


def choice(settings: BaseSettings, name: str, choices: tuple[str, ...]) -> str:
    """One of *choices*, the first where nothing is set. Raises `FrontierSetting` for any other."""
    value = settings.get(name)
    if value is None:
        return choices[0]
    if value not in choices:
        raise FrontierSetting(f"{name} = {value!r}: set one of {', '.join(map(repr, choices))}")
    return str(value)


def words(settings: BaseSettings, name: str, default: tuple[str, ...]) -> frozenset[str]:
    """A set of words in lower case, from a list, also in JSON, or from text with commas. Raises
    `FrontierSetting`."""
    value = settings.get(name, default)
    words = plain(value)
    if isinstance(words, str):
        words = words.replace(",", " ").split()
    is_list = isinstance(words, (list, tuple, set, frozenset))
    if not is_list or not all(type(word) is str and _is_word(word) for word in words):
        raise FrontierSetting(f"{name} = {value!r}: set a list of words, as {json.dumps(default)}")
    return frozenset(word.lower() for word in words)


def plain(value: Any) -> Any:
    """The list or dict that *value* is in JSON, as on a command line; any other as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def path(settings: BaseSettings, name: str) -> str | None:
    """A path as text; None where nothing is set. It need not exist."""
    return str(settings[name]) if settings[name] else None


def function(name: str, value: Any, wanted: str) -> Callable[..., Any]:
    """The function that a setting is or names, imported. Raises `FrontierSetting`, with *wanted* for what to
    set."""
    try:
        function = load_object(value) if isinstance(value, str) else value
    except (ImportError, NameError, ValueError) as error:
        raise FrontierSetting(f"{name} = {value!r} cannot be imported ({error}): set {wanted}") from error
    if not callable(function):
        raise FrontierSetting(f"{name} = {value!r}: set {wanted}")
    found: Callable[..., Any] = function
    return found


def choice_or_function(
    settings: BaseSettings, name: str, choices: tuple[str, ...], about: str
) -> str | Callable[..., Any]:
    """One of *choices*, the first where nothing is set, or a function *about* something. Raises
    `FrontierSetting`."""
    value = settings.get(name) or choices[0]
    if value in choices:
        return str(value)
    return function(name, value, f"one of {', '.join(map(repr, choices))} or a function {about}")
