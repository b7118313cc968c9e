"""Render a chat template of the user in Jinja's sandbox.

A template gets its variables, and no file, clock, random choice or Python object beyond them. The length of its output
is bounded; its work is not: a template is the user's own file, and Ctrl-C ends a loop in it that never ends.

The environment is set up as engines do it: Hugging Face transformers, `apply_chat_template` (trimmed blocks, loop
controls, `generation` blocks rendered through, `raise_exception`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, ItemsView, KeysView, Mapping, Sized, ValuesView
from typing import Any, ClassVar, NoReturn, cast

from jinja2 import Template, TemplateError, TemplateRuntimeError, TemplateSyntaxError, Undefined, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lore.errors import LoreError, Where
from lore.model.limits import POWER_BITS, RENDERED_CHARACTERS, TEMPLATE_CHARACTERS
from lore.model.mask import cut_masked, mask

_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
_FILE = "<chat template>"
_SHOWN = 200  # characters of what a template says
_LOOKED_AT = 1_600  # characters of a template's message, before invisible ones are left out
_FAILURES = (
    TemplateError, ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, MemoryError, NameError,
    RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
_QUOTED = re.compile(r"(?<=')[^'\s]{8,}(?=')")
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+")


class SandboxError(TemplateRuntimeError):
    """A template did what the sandbox does not allow."""


class _RaisedError(TemplateError):
    """What a template says by `raise_exception`."""


class Sandbox:
    """A compiled template that may call some functions; `file` names it in errors. Raises LoreError as it compiles.

    Safe to use again and from several threads.
    """

    def __init__(self, source: str, functions: Mapping[str, Callable[..., Any]], *, file: str | None = None) -> None:
        self._file = file or "template"
        where = Where(self._file)
        if len(source) > TEMPLATE_CHARACTERS:
            raise LoreError(
                f"the chat template has {len(source)} characters; {TEMPLATE_CHARACTERS} is the limit", where=where
            )
        environment = _Environment(functions)
        try:
            tree = environment.parse(source)
            other = next(tree.find_all(_OTHER_FILES), None)
            if other is not None:
                raise TemplateSyntaxError("it asks for another file", other.lineno)  # noqa: TRY301
            code = environment.compile(tree, filename=_FILE)
            self._template = Template.from_code(environment, code, dict(environment.globals))
        except TemplateSyntaxError as error:
            raise LoreError(
                f"the chat template is not sound: {cleaned(_quoting(error.message or '', source))}",
                hint="it must be a Jinja template that stands alone",
                where=Where(self._file, error.lineno),
            ) from None
        except _FAILURES as error:
            raise LoreError(f"the chat template does not compile: {_reason(error)}", where=where) from None

    def render(self, variables: Mapping[str, Any], max_output: int = RENDERED_CHARACTERS) -> str:
        """Render; raises LoreError if the template fails or writes more than `max_output` characters."""
        pieces, size = list[str](), 0
        try:
            for piece in self._template.root_render_func(self._template.new_context(dict(variables))):
                size += len(piece)
                if size > max_output:
                    raise SandboxError(f"it writes more than {max_output:,} characters")  # noqa: TRY301
                pieces.append(piece)
            return "".join(pieces)
        except _RaisedError as error:
            message, hint = cleaned(str(error)) or "(no reason given)", "the chat template refuses this conversation"
            raise LoreError(message, hint=hint, where=self._where(error)) from None
        except _FAILURES as error:
            lacks = isinstance(error, SecurityError)
            hint = "a template renders text from its variables; lore gives it no more" if lacks else ""
            raise LoreError(f"the chat template fails: {_reason(error)}", hint=hint, where=self._where(error)) from None

    def _where(self, error: BaseException) -> Where:
        """Return the template's innermost line on the way to the error."""
        line, frame = None, error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == _FILE:
                line = self._template.get_corresponding_lineno(frame.tb_lineno)
            frame = frame.tb_next
        return Where(self._file, line)


def _quoting(message: str, source: str) -> str:
    """Return Jinja's message, with stars for a word of the source that it took out of a credential."""
    masked = mask(source)
    hidden = {word for word in _QUOTED.findall(message) if word in source and word not in masked}
    return _QUOTED.sub(lambda found: "*" * len(found[0]) if found[0] in hidden else found[0], message)


def cleaned(text: str) -> str:
    """Return text for a message: one line, nothing invisible, not long."""
    shown = _UNSEEN.sub(" ", cut_masked(text, _LOOKED_AT)).strip()
    return shown if len(shown) <= _SHOWN else cut_masked(shown, _SHOWN - 1) + "…"


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError | SyntaxError):  # Python's own limits on blocks and brackets
        return "it nests too deeply"
    if isinstance(error, MemoryError):
        return "it is too large"
    shown = cleaned(re.sub(r" at 0x[0-9a-fA-F]+", "", str(error)))
    return shown if isinstance(error, TemplateError) and shown else f"{type(error).__name__}: {shown}"


class _Generation(Extension):
    """`{% generation %}`: marks what to train on; rendered through."""

    tags: ClassVar[set[str]] = {"generation"}  # pyright: ignore[reportIncompatibleVariableOverride]

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: object = "") -> NoReturn:
    raise _RaisedError(cleaned(str(message)))


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Encode as engines do for chat templates: characters as they are, spaces after commas and colons."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, allow_nan=True
    )


_DATA = (str, int, float, list, tuple, dict, range, KeysView, ValuesView, ItemsView, Undefined)


def _printed(value: Any) -> object:
    """Return a value that the template prints; anything but data would show an address."""
    if value is not None and not isinstance(value, _DATA):
        raise SandboxError(f"it prints a {type(value).__name__} as if it were data")
    return cast("object", value)


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, without randomness and without arithmetic that makes very large values."""

    intercepted_binops = frozenset(["-", "*", "**"])

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, finalize=_printed, cache_size=0,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )  # fmt: skip
        self.filters = {name: function for name, function in FILTERS.items() if name != "random"}
        self.filters["tojson"] = _tojson
        del self.globals["lipsum"]  # random
        own: dict[str, Callable[..., Any]] = {**functions, "raise_exception": _raise}
        self.globals.update(own)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, int | float | Undefined) and isinstance(right, int | float | Undefined)
        if operator == "*" and not numbers:
            for repeated, times in ((left, right), (right, left)):
                if (
                    isinstance(repeated, Sized)
                    and isinstance(times, int)
                    and len(repeated) * times > RENDERED_CHARACTERS
                ):
                    raise SandboxError(f"it repeats to more than {RENDERED_CHARACTERS:,}")
        elif not numbers:  # the difference of two sets of keys has a random order
            raise SandboxError("it computes with values that are not numbers")
        elif operator == "**" and isinstance(left, int) and left.bit_length() * right > POWER_BITS:
            raise SandboxError("it computes a number of more than a thousand digits")
        return self.binop_table[operator](left, right)

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        raise SecurityError(f"it asks for {attribute!r} of a {type(obj).__name__}, which is not allowed")
