"""JSON into dataclasses, by their annotations.

Fields that a class does not know are passed over, so that a newer server can say more. What is
there must be of the right kind. Not a validator: whoever wants one gives it to the handler.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from datetime import datetime
from typing import Any, TypeVar

from .times import parse_instant

T = TypeVar("T")


def decode(kind: type[T], value: object) -> T:
    """Read a JSON value as `kind`; raises `ValueError` with the place at fault."""
    return typing.cast(T, _decode(kind, value, ""))


def _fail(place: str, expected: str, value: object) -> typing.NoReturn:
    raise ValueError(f"{place or 'value'}: expected {expected}, got {type(value).__name__}")


@functools.cache
def _fields(kind: type) -> list[tuple[str, Any, bool]]:
    hints = typing.get_type_hints(kind)
    none = dataclasses.MISSING
    return [
        (f.name, hints[f.name], f.default is none and f.default_factory is none)
        for f in dataclasses.fields(kind)
        if f.init
    ]


def _object(kind: type, value: object, place: str) -> object:
    if not isinstance(value, dict):
        _fail(place, "an object", value)
    given = {}
    for name, hint, required in _fields(kind):
        where = f"{place}.{name}" if place else name
        if name in value:
            given[name] = _decode(hint, value[name], where)
        elif required:
            raise ValueError(f"{where}: missing")
    return kind(**given)


def _union(options: tuple[Any, ...], value: object, place: str) -> object:
    if value is None and type(None) in options:
        return None
    rest = [option for option in options if option is not type(None)]
    for option in rest[:-1]:
        try:
            return _decode(option, value, place)
        except ValueError:
            continue
    return _decode(rest[-1], value, place)


def _generic(origin: Any, arguments: tuple[Any, ...], value: object, place: str) -> object:
    if origin is typing.Union or origin is types.UnionType:
        return _union(arguments, value, place)
    if origin is list:
        if not isinstance(value, list):
            _fail(place, "a list", value)
        return [_decode(arguments[0], item, f"{place}[{at}]") for at, item in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            _fail(place, "an object", value)
        return {key: _decode(arguments[1], item, f"{place}.{key}") for key, item in value.items()}
    # Words out of a closed list: a newer server may know more of them.
    return value


def _decode(hint: Any, value: object, place: str) -> object:
    origin = typing.get_origin(hint)
    if origin is not None:
        return _generic(origin, typing.get_args(hint), value, place)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _object(hint, value, place)
    if hint is Any or hint is object:
        return value
    if hint is datetime and isinstance(value, str):
        return parse_instant(value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and not isinstance(value, hint):
        _fail(place, hint.__name__, value)
    if hint is int and isinstance(value, bool):
        _fail(place, "int", value)
    return value
