"""Render a user's chat template in Jinja's sandbox, set up as inference engines do.

Source: Hugging Face transformers, `apply_chat_template` (trimmed blocks, loop controls, `generation` blocks rendered
through, `tojson` without escapes, `raise_exception`). A template reads its variables and no file; the length of its
output is bounded. Its work is not: it is the user's own file, and Ctrl-C ends a loop in it that never ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from typing import Any, ClassVar, NoReturn, cast

from jinja2 import (
    DictLoader,
    TemplateError,
    TemplateNotFound,
    TemplateRuntimeError,
    TemplateSyntaxError,
    Undefined,
    nodes,
)
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lore.errors import LoreError, Where
from lore.model.limits import RENDERED_CHARACTERS
from lore.model.mask import cut_masked, mask

_FAILURES = (
    TemplateError, ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, MemoryError, NameError,
    RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+")
_SHOWN = 200  # characters of a template's message
_MASKED = 1_600  # characters of it that are searched for credentials, before invisible ones are removed
_DATA = (str, int, float, list, tuple, dict, range, KeysView, ValuesView, ItemsView, Undefined)


class _RefusedError(TemplateError):
    """The template called `raise_exception`."""


class Sandbox:
    """A compiled template that may call some functions; `file` names it in errors.

    Safe to use again and from several threads. Raises LoreError for a template that does not compile.
    """

    def __init__(self, source: str, functions: Mapping[str, Callable[..., Any]], *, file: str | None = None) -> None:
        self._file = file or "template"
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, finalize=_checked, loader=DictLoader({}),
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )  # fmt: skip
        environment.filters["tojson"] = _tojson
        del environment.filters["random"], environment.globals["lipsum"]  # the text has to be the same every time
        environment.globals.update(cast("dict[str, Any]", {**functions, "raise_exception": _raise}))
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            quotes_secret = mask(source) != source  # Jinja's message quotes words of the source
            reason = "a syntax error" if quotes_secret else cleaned(error.message or "")
            raise LoreError(
                f"the chat template is not valid: {reason}",
                hint="it must be a Jinja template in a single file",
                where=Where(self._file, error.lineno),
            ) from None
        except _FAILURES as error:
            raise LoreError(f"the chat template does not compile: {_reason(error)}", where=Where(self._file)) from None

    def render(self, variables: Mapping[str, Any], max_output: int = RENDERED_CHARACTERS) -> str:
        """Return the text; raises LoreError if the template fails or writes more than `max_output` characters."""
        pieces, size = list[str](), 0
        try:
            for piece in self._template.generate(dict(variables)):
                size += len(piece)
                if size > max_output:
                    raise LoreError(
                        f"the chat template fails: it writes more than {max_output:,} characters",
                        where=Where(self._file),
                    )
                pieces.append(piece)
        except _RefusedError as error:
            message, hint = cleaned(str(error)) or "(no reason given)", "the chat template refuses this conversation"
            raise LoreError(message, hint=hint, where=self._where(error)) from None
        except _FAILURES as error:
            raise LoreError(f"the chat template fails: {_reason(error)}", where=self._where(error)) from None
        return "".join(pieces)

    def _where(self, error: BaseException) -> Where:
        """Return the template's innermost line in the traceback, which Jinja rewrites to the template's lines."""
        line, frame = None, error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == "<template>":
                line = frame.tb_lineno
            frame = frame.tb_next
        return Where(self._file, line)


def cleaned(text: str) -> str:
    """Return text for a message: one line, nothing invisible, not long."""
    shown = _UNSEEN.sub(" ", cut_masked(text, _MASKED)).strip()
    return shown if len(shown) <= _SHOWN else cut_masked(shown, _SHOWN - 1) + "…"


def _reason(error: BaseException) -> str:
    if isinstance(error, TemplateNotFound):
        return "it asks for another file"
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
    raise _RefusedError(cleaned(str(message)))


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Encode as engines do for chat templates: characters as they are, spaces after commas and colons."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, allow_nan=True
    )


def _checked(value: Any) -> object:
    """Return a value that the template prints; one that is not data would show an address in memory."""
    if value is not None and not isinstance(value, _DATA):
        raise TemplateRuntimeError(f"it prints a {type(value).__name__} as if it were data")
    return cast("object", value)
