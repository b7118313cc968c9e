"""What the operations of a chat template cost, counted and never timed, so that the answer is the same everywhere.

In: a meter, values of a template. Out: the filters and tests that a template has, methods and operators admitted.
Rules: what an operation walks through is charged before it runs; what it makes is charged afterwards, or before
where it can amplify (a width, a count, a replacement). Results come whole, never as an iterator. Left out of Jinja's
filters, no chat template needs them: what is random, what makes HTML, what takes quadratic time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, ItemsView, KeysView, Mapping, Sequence, Sized, ValuesView
from types import BuiltinMethodType
from typing import Any, cast

from jinja2 import TemplateRuntimeError, Undefined
from jinja2.filters import FILTERS as KNOWN_FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment, SandboxedFormatter
from jinja2.tests import TESTS as KNOWN_TESTS
from jinja2.utils import Cycler, pass_context

WORK = 1_000_000  # units of a template's work: about an expression, an item, 64 characters read or 8 made
_READ, MADE = 64, 8
MAX_BITS = 4096  # bits of an integer: beyond it arithmetic is no longer cheap
LONGEST_WIDTH = 9  # characters of a width: a longer number asks for more than a template's work
MAX_WIDTH = 1_000  # characters of a width inside a format: padding costs what it makes
MAX_INDENT = 16  # columns of an indent of JSON: it is written before every member
_TEXTS = (str, range)
_GROUPS = (dict, list, tuple, KeysView, ValuesView, ItemsView)
_PLAIN = (float, Undefined)
METER = "(meter)"  # where a rendering's context holds its meter: no template can spell it


class SandboxError(TemplateRuntimeError):
    """A template did what the sandbox does not allow."""


class Meter:
    """What is left of the work of a rendering, and how deep its calls stand."""

    def __init__(self, work: int) -> None:
        self.work = work
        self.depth = 0

    def step(self, work: int) -> None:
        self.work -= abs(work)
        if self.work < 0:
            raise SandboxError("it does far more work than its input can need: a loop or a recursion without end?")

    def make(self, size: int) -> None:
        self.step(1 + abs(size) // MADE)

    def weigh(self, *values: object) -> int:
        """Charge a walk through all of some values, as a small graph of shared lists can stand for an endless tree.

        Returns about how many characters they hold. An object that is no data (a function, a macro) has no text:
        it would show an address.
        """
        total, left = 0, [*values]
        while left:
            value, size = left.pop(), 8
            if isinstance(value, _TEXTS):
                size = len(value)
            elif isinstance(value, int):
                size = 1 + value.bit_length() // 3
                if value.bit_length() > MAX_BITS:
                    raise SandboxError("it computes with a number of more than a thousand digits")
            elif isinstance(value, _GROUPS):
                items = cast("list[object]", value)
                size = 2 + 4 * len(items)
                self.step(len(items))
                left += items
                left += cast("dict[str, object]", value).values() if isinstance(value, dict) else ()
            elif value is not None and not isinstance(value, _PLAIN):
                raise SandboxError(f"it uses a {type(value).__name__} as if it were data")
            self.step(2 + size // _READ)
            total += size
        return total

    def admit(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Charge what an operation can amplify, by all that it takes."""
        if name in _AMPLIFIERS:
            _AMPLIFIERS[name](self, *args, **kwargs)

    def settled(self, value: Any) -> Any:
        """Charge a result, and turn an iterator into a list."""
        if isinstance(value, str):
            self.make(len(value))
        elif isinstance(value, list | tuple | dict):
            self.step(len(cast("list[Any]", value)))
        elif isinstance(value, int):
            self.weigh(value)
        elif hasattr(value, "__next__") and not isinstance(value, Cycler):
            found: list[Any] = []
            for item in value:
                self.make(len(item) if isinstance(item, str) else MADE)
                found.append(item)
            return found
        return cast("Any", value)


def meter_of(context: Context) -> Meter:
    """Return the meter of a rendering."""
    return cast("Meter", context.parent[METER])


def _size(value: Any) -> int:
    return len(value) if isinstance(value, Sized) else 0


# What filters, tests, methods and operators may amplify: charged by the value and the arguments before they run.


def _numbers(meter: Meter, *values: Any) -> None:
    if not all(isinstance(value, int | float | Undefined) for value in values):
        raise SandboxError("it computes with what are no numbers")


def _counts(meter: Meter, value: Any, *args: Any, **kwargs: Any) -> None:
    """Charge widths and counts, whichever argument they are."""
    for number in (*args, *kwargs.values()):
        meter.step(number if isinstance(number, int) else 0)


def _rounds(meter: Meter, value: Any, *args: Any, **kwargs: Any) -> None:
    _numbers(meter, value)  # a text would be repeated
    _counts(meter, value, *args, **kwargs)


def _sums(meter: Meter, items: Any, attribute: Any = None, start: Any = 0) -> None:
    _numbers(meter, start)  # lists would be copied each time


def _power(meter: Meter, base: Any, exponent: Any) -> None:
    _numbers(meter, base, exponent)
    if isinstance(base, int) and isinstance(exponent, int):
        meter.step(base.bit_length() * exponent)


def _repeats(meter: Meter, left: Any, right: Any) -> None:
    for repeated, times in ((left, right), (right, left)):
        meter.step(_size(repeated) * times if isinstance(times, int) else 0)


def _joins(meter: Meter, items: Any, d: Any = "", attribute: Any = None) -> None:
    meter.make(len(str(d)) * _size(items))


def _replaces(meter: Meter, text: Any, old: Any, new: Any, count: Any = None) -> None:
    meter.make(str(text).count(str(old)) * len(str(new)))


def _indents(meter: Meter, text: Any, width: Any = 4, *_: Any, **__: Any) -> None:
    meter.make((len(str(text).splitlines()) + 1) * (width if isinstance(width, int) else len(str(width))))


_NUMBER = re.compile(r"[0-9]+")
_STARRED = re.compile(r"%[#0\- +.0-9]*\*")


def _percent(meter: Meter, text: Any, *args: Any, **kwargs: Any) -> None:
    """Charge `%`: each directive can show every argument, at a width that the text says, or one of the arguments."""
    if not isinstance(text, str):
        return _numbers(meter, text, *args)
    meter.make(meter.weigh(*args, *kwargs.values()) * text.count("%"))
    for number in _NUMBER.findall(text):
        meter.step(int(number.lstrip("0")[:LONGEST_WIDTH] or "0"))
    if _STARRED.search(text):
        _counts(meter, text, *(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args))
    return None


_AMPLIFIERS: dict[str, Callable[..., None]] = {
    "-": _numbers, "/": _numbers, "//": _numbers, "odd": _numbers, "even": _numbers, "divisibleby": _numbers,
    "*": _repeats, "**": _power, "%": _percent, "format": _percent, "round": _rounds,
    "sum": _sums,
    "join": _joins, "replace": _replaces, "indent": _indents,
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "batch", "slice"), _counts),
}  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LEFT_OUT = _words("random pprint urlize striptags xmlattr wordwrap filesizeformat")
# Filters that look at a value's items and not into them, tests that look at its type alone.
_SHALLOW = _words("""
    length count first last default d list items map select selectattr reject rejectattr attr reverse batch slice
    (slice) defined undefined none boolean false true integer float mapping number sequence iterable callable
    sameas escaped""")
_OWNERS: tuple[type[Any], ...] = (str, dict, list, tuple)  # whose methods a template has, where Jinja's sandbox lets it
_NO_METHODS = _words("encode expandtabs translate")
_SLOW = _words("rfind rindex rpartition rsplit strip lstrip rstrip")  # each with each, at worst


def _metered(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter or a test that charges for what it does."""
    passed = getattr(getattr(function, "jinja_pass_arg", None), "name", "")
    shallow, amplifies = name in _SHALLOW, _AMPLIFIERS.get(name)

    @pass_context  # also keeps the compiler from computing it
    def metered(context: Context, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter = meter_of(context)
        if shallow:
            meter.make(_size(value))
        else:
            meter.weigh(value)
        if args or kwargs:
            meter.weigh(*args, *kwargs.values())
        if amplifies is not None:
            amplifies(meter, value, *args, **kwargs)
        given = (value, *args)
        if passed:
            extra = {"context": context, "eval_context": context.eval_ctx, "environment": context.environment}
            given = (extra[passed], *given)
        result = function(*given, **kwargs)
        return value if result is value else meter.settled(result)

    return metered


@pass_context
def _tojson(
    context: Context, value: Any, /, ensure_ascii: Any = False, indent: Any = None, separators: Any = None,
    sort_keys: Any = False,
) -> str:  # fmt: skip
    """Encode as engines do for chat templates: characters as they are, spaces after commas and colons."""
    meter = meter_of(context)
    meter.weigh(value, separators)
    if indent is not None and not (isinstance(indent, int) and indent <= MAX_INDENT):
        raise SandboxError(f"tojson indents by a number up to {MAX_INDENT}")
    if separators is not None and len("".join(separators)) > MAX_INDENT:
        raise SandboxError("tojson's separators are too long")
    encoder = json.JSONEncoder(
        ensure_ascii=bool(ensure_ascii), indent=indent, separators=separators, sort_keys=bool(sort_keys)
    )
    return "".join(meter.settled(encoder.iterencode(value)))


@pass_context
def _step(context: Context, value: Any, work: int) -> Any:
    """Charge a body that begins again."""
    meter_of(context).step(work)
    return value


@pass_context
def _weigh(context: Context, value: Any) -> Any:
    """Charge a walk through a value that bare Python is going to look into."""
    meter_of(context).weigh(value)
    return value


@pass_context
def shown(context: Context, value: Any) -> str:
    """Write a value where the template prints it."""
    meter = meter_of(context)
    if not isinstance(value, str):
        meter.weigh(value)
        value = str(value)
    meter.make(len(value))
    return value


def _sliced(value: Any, *bounds: int | None) -> Any:
    return value[slice(*bounds)]


FILTERS = {
    **{name: _metered(name, function) for name, function in KNOWN_FILTERS.items() if name not in _LEFT_OUT},
    "tojson": _tojson,
    "(step)": _step,
    "(weigh)": _weigh,
    "(slice)": _metered("(slice)", _sliced),
}
TESTS = {name: _metered(name, function) for name, function in KNOWN_TESTS.items()}


def call_method(
    environment: SandboxedEnvironment, meter: Meter, method: BuiltinMethodType, args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:  # fmt: skip
    """Call a method of a value; raises SandboxError where templates have no such method."""
    owner: Any = method.__self__
    name = method.__name__
    if not isinstance(owner, _OWNERS) or name in _NO_METHODS:
        raise SandboxError(f"it calls {type(owner).__name__}.{name}, which templates do not have here")
    size = meter.weigh(*args, *kwargs.values())
    if name in ("format", "format_map"):  # each field can show every argument, at its width
        meter.make((size + MAX_WIDTH) * owner.count("{"))
        by_place, by_name = (args, kwargs) if name == "format" else ((), args[0])
        return _Formatter(environment).vformat(str(owner), by_place, by_name)
    if isinstance(owner, str):
        meter.step(1 + len(owner) * (1 + size if name in _SLOW else 1) // _READ)
    elif not isinstance(owner, dict):
        meter.weigh(owner)
    if name == "join":
        _joins(meter, args[0] if args else (), owner)
    else:
        meter.admit(name, owner, *args, **kwargs)
    return method(*args, **kwargs)


class _Formatter(SandboxedFormatter):
    """`str.format`: fields reach only what the sandbox lets through."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if any(len(number) > 9 or int(number) > MAX_WIDTH for number in re.findall(r"[0-9]+", format_spec)):
            raise SandboxError(f"it formats to a width of more than {MAX_WIDTH}")
        return super().format_field(value, format_spec)
