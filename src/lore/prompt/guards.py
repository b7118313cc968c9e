"""What each operation of a template costs, and which operations there are.

In: values of a template, a meter. Rules: an operation that is not named here does not exist for a template;
what can amplify (a width, a count, a replacement) is bounded before it runs; results come whole, never as
an iterator; nothing whose order or text depends on the process (sets, addresses, chance) is reachable.

Left out of Jinja's filters, no chat template needs them: what is random, what makes HTML, what takes
quadratic time (`random`, `pprint`, `urlize`, `striptags`, `xmlattr`, `wordwrap`, `filesizeformat`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from string import Formatter
from typing import Any, TypeAlias, cast

from jinja2 import Undefined
from jinja2.filters import FILTERS as KNOWN_FILTERS
from jinja2.runtime import Context
from jinja2.tests import TESTS as KNOWN_TESTS
from jinja2.utils import Cycler, pass_context

from lore.prompt.meter import MAX_BITS, Meter, RefusedError

METER = "(meter)"  # where a rendering's context holds its meter: no template can spell it
MAX_NUMBER = 100_000  # of a width, a count, a number of columns
MAX_WIDTH = 1_000  # inside a format
MAX_INDENT = 16
Function: TypeAlias = Callable[..., Any]
Guard: TypeAlias = Callable[[Meter, Any, tuple[Any, ...], Mapping[str, Any]], None]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LEFT_OUT = _words("random pprint urlize striptags xmlattr wordwrap filesizeformat")
# Filters that look at a value's items and not into them; tests that look at a value's type alone.
_SHALLOW = _words(
    """length count first last default d list items map select selectattr reject rejectattr attr reverse batch
    slice"""
)
_LIGHT = _words(
    """defined undefined none boolean false true integer float string mapping number sequence iterable callable
    sameas escaped filter test"""
)


def meter_of(context: Context) -> Meter:
    """Return the meter of a rendering."""
    return cast("Meter", context.parent[METER])


def settled(meter: Meter, value: Any) -> Any:
    """Charge a result, and turn an iterator into a list."""
    if isinstance(value, str):
        meter.make(len(value))
    elif hasattr(value, "__next__") and not isinstance(value, Cycler):
        return _drained(meter, value)
    elif isinstance(value, list | tuple | dict):
        meter.make(8 * len(cast("list[Any]", value)))
    elif isinstance(value, int):
        meter.number(value)
    return cast("Any", value)


def _drained(meter: Meter, items: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        meter.make(8)
        found.append(item)
    return found


# what a filter of Jinja is passed besides its value
_EXTRA: dict[str, Callable[[Context], tuple[Any, ...]]] = {
    "": lambda _: (),
    "context": lambda context: (context,),
    "eval_context": lambda context: (context.eval_ctx,),
    "environment": lambda context: (context.environment,),
}


def _metered(name: str, function: Function, *, shallow: bool) -> Function:
    extra = _EXTRA[getattr(getattr(function, "jinja_pass_arg", None), "name", "")]
    guard = _GUARDS.get(name)

    @pass_context  # also keeps the compiler from computing it
    def metered(context: Context, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter = meter_of(context)
        if not shallow:
            meter.weigh(value)
        elif hasattr(value, "__len__") and not isinstance(value, Undefined):
            meter.step(1 + len(value))
        for one in (*args, *kwargs.values()):
            meter.weigh(one)
            _bounded(one)
        if guard is not None:
            guard(meter, value, args, kwargs)
        return settled(meter, function(*extra(context), value, *args, **kwargs))

    return metered


def _bounded(number: Any) -> None:
    if isinstance(number, int) and abs(number) > MAX_NUMBER:
        raise RefusedError(f"it asks for {number:.3g} of something; {MAX_NUMBER} is the limit")


# what a filter or a method may amplify


def _joins(meter: Meter, items: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    size = len(_text(_given(args, kwargs, 0, "d", "")))
    meter.make(size * len(items) if hasattr(items, "__len__") and not isinstance(items, Undefined) else 0)


def _replaces(meter: Meter, text: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    old, new = _text(_given(args, kwargs, 0, "old", "")), _text(_given(args, kwargs, 1, "new", ""))
    meter.make(_text(text).count(old) * len(new))


def _indents(meter: Meter, text: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    width = _given(args, kwargs, 0, "width", 4)
    size = width if isinstance(width, int) else len(_text(width))
    meter.make((len(_text(text).splitlines()) + 1) * size)


def _rounds(meter: Meter, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    precision = _given(args, kwargs, 0, "precision", 0)
    if isinstance(precision, int) and abs(precision) > 300:
        raise RefusedError("it rounds to more than 300 digits")


def _sums(meter: Meter, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    if not isinstance(_given(args, kwargs, 1, "start", 0), int | float):
        raise RefusedError("it sums what are no numbers")


def percent(meter: Meter, text: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Charge `%`: each directive can show every argument, at its width."""
    weight = sum(meter.weigh(one) for one in (*args, *kwargs.values()))
    for key, *numbers in _DIRECTIVE.findall(_text(text)):
        if key == "(":
            raise RefusedError("it formats by a key with brackets or % in it")
        if any(number == "*" or int(number or "0") > MAX_WIDTH for number in numbers):
            raise RefusedError(f"it formats to a width of more than {MAX_WIDTH}")
        meter.make(weight + MAX_WIDTH if any(numbers) else weight)


# a key may hold no bracket and no %, so that no text makes the search quadratic
_DIRECTIVE = re.compile(r"%%|%(\([^()%]*\)|\()?[#0\- +]*([0-9]{1,9}|\*)?(?:\.([0-9]{1,9}|\*))?")
_GUARDS: dict[str, Guard] = {
    "join": _joins, "replace": _replaces, "indent": _indents, "round": _rounds, "sum": _sums, "format": percent,
}  # fmt: skip


def _given(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str, default: Any) -> Any:
    return args[place] if place < len(args) else kwargs.get(name, default)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


# filters and tests


@pass_context
def _tojson(
    context: Context, value: Any, /, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
    sort_keys: bool = False,
) -> str:  # fmt: skip
    """Encode as engines do for chat templates: characters as they are, spaces after commas and colons."""
    meter = meter_of(context)
    meter.weigh((value, indent, separators))
    if indent is not None and not (isinstance(indent, int) and indent <= MAX_INDENT):
        raise RefusedError(f"tojson indents by a number up to {MAX_INDENT}")
    if separators is not None and len("".join(separators)) > MAX_INDENT:
        raise RefusedError("tojson's separators are too long")
    encoder = json.JSONEncoder(
        ensure_ascii=bool(ensure_ascii), indent=indent, separators=separators, sort_keys=bool(sort_keys)
    )
    pieces: list[str] = []
    for piece in encoder.iterencode(value):
        meter.make(len(piece))
        pieces.append(piece)
    return "".join(pieces)


@pass_context
def _step(context: Context, value: object, /, work: int, made: int) -> object:
    """Charge what stands in a body that runs again and again."""
    meter = meter_of(context)
    meter.step(work)
    meter.make(made)
    return value


@pass_context
def _weigh(context: Context, value: object, /) -> object:
    """Charge a value that is going to be compared or hashed."""
    meter_of(context).weigh(value)
    return value


@pass_context
def _concat(context: Context, values: list[Any], /) -> str:
    """Do what `~` does."""
    meter = meter_of(context)
    meter.weigh(values)
    return settled(meter, "".join(map(str, values)))


@pass_context
def _slice(context: Context, value: Any, /, *bounds: int | None) -> Any:
    """Do what `[a:b:c]` does."""
    meter = meter_of(context)
    meter.weigh(bounds)
    meter.step(1 + (len(value) // 64 if hasattr(value, "__len__") and not isinstance(value, Undefined) else 0))
    return settled(meter, value[slice(*bounds)])


STEP, WEIGH, CONCAT, SLICE = "(step)", "(weigh)", "(concat)", "(slice)"
FILTERS: dict[str, Function] = {
    **{
        name: _metered(name, function, shallow=name in _SHALLOW)
        for name, function in KNOWN_FILTERS.items()
        if name not in _LEFT_OUT
    },
    "tojson": _tojson,
    STEP: _step,
    WEIGH: _weigh,
    CONCAT: _concat,
    SLICE: _slice,
}
TESTS: dict[str, Function] = {
    name: _metered("", function, shallow=name in _LIGHT) for name, function in KNOWN_TESTS.items()
}


# operators


def binary(meter: Meter, operator: str, left: Any, right: Any) -> None:
    """Charge an operator before it runs."""
    for one in (left, right):
        if isinstance(one, int):
            meter.number(one)
    if operator == "%" and isinstance(left, str):
        return percent(meter, left, (right,), {})
    if operator == "*":
        return _repeats(meter, left, right)
    if operator == "+":
        return meter.make(_length(left) + _length(right))
    if not all(isinstance(one, int | float | Undefined) for one in (left, right)):
        raise RefusedError(f"it computes {operator} of what are no numbers")
    if operator == "**" and isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MAX_BITS:
        raise RefusedError("it computes with a number of more than a thousand digits")
    return meter.step(1)


def _repeats(meter: Meter, left: Any, right: Any) -> None:
    for some, times in ((left, right), (right, left)):
        if isinstance(times, int) and not isinstance(some, int | float):
            meter.make(_length(some) * max(0, times))
    meter.step(1)


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return 8 * len(cast("list[Any]", value)) if isinstance(value, list | tuple) else 1


# methods

_METHODS: dict[type, frozenset[str]] = {
    str: _words("""capitalize casefold center count endswith find index isalnum isalpha isascii isdecimal isdigit
        isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip partition
        removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith
        strip swapcase title upper zfill"""),
    dict: _words("copy get items keys values"),
    list: _words("copy count index"),
    tuple: _words("count index"),
}
_WIDE = _words("center ljust rjust zfill")
_SLOW = _words("rfind rindex rpartition rsplit strip lstrip rstrip")  # each with each, at worst


def method(meter: Meter, owner: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Charge a method of a value before it runs; raises RefusedError where templates have no such method."""
    known = next((names for kind, names in _METHODS.items() if isinstance(owner, kind)), frozenset[str]())
    if name not in known:
        raise RefusedError(f"it calls {type(owner).__name__}.{name}, which templates do not have here")
    size = sum(meter.weigh(one) for one in (*args, *kwargs.values()))
    if isinstance(owner, str):
        meter.step(1 + len(owner) * (1 + size if name in _SLOW else 1) // 64)
    elif not isinstance(owner, dict):
        meter.weigh(owner)
    for one in args if name in _WIDE else ():
        _bounded(one)
    if name == "replace":
        _replaces(meter, owner, args, kwargs)
    elif name == "join" and args:
        _joins(meter, args[0], (cast("str", owner),), {})


class FormatMethod:
    """`str.format` and `str.format_map` of a text: fields reach only what the sandbox lets through."""

    def __init__(self, text: str, getters: tuple[Function, Function], *, is_map: bool) -> None:
        self._text = text
        self._getters = getters
        self._is_map = is_map

    def call(self, meter: Meter, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Format; charges each field by what it shows."""
        if self._is_map:
            args, kwargs = (), cast("Mapping[str, Any]", args[0])
        return settled(meter, _Formatter(meter, self._getters).vformat(self._text, args, kwargs))


class _Formatter(Formatter):
    def __init__(self, meter: Meter, getters: tuple[Function, Function]) -> None:
        self._meter = meter
        self._get_attribute, self._get_item = getters

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        first, *rest = re.split(r"(?=[.\[])", field_name)
        value = self.get_value(int(first) if first.isdecimal() else first, args, kwargs)
        for part in rest:
            key = part.strip("[].")
            if part[0] == ".":
                value = self._get_attribute(value, key)
            else:
                value = self._get_item(value, int(key) if key.isdecimal() else key)
        return value, first

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        self._meter.weigh(value)
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        self._meter.make(self._meter.weigh(value))
        if any(len(number) > 9 or int(number) > MAX_WIDTH for number in re.findall(r"[0-9]+", format_spec)):
            raise RefusedError(f"it formats to a width of more than {MAX_WIDTH}")
        return settled(self._meter, super().format_field(value, format_spec))
