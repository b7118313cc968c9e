"""Run a chat template that nobody vouches for: it renders or it is refused, after a bounded amount of work.

In: a template's text, variables. Out: text, or LoreError with the template's line. Rules: no file, no clock,
no chance, no timer: loops, calls and text are counted (`meter.py`), and what an operation costs is known
before it runs (`guards.py`). The compiler is made to count: each body that can run again begins with a
charge, and operators that it would compile to bare Python go through a guard. Nothing is computed while
compiling.

How engines set up the environment: Hugging Face transformers, `apply_chat_template` (trimmed blocks, loop
controls, `generation` blocks rendered through).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import BuiltinMethodType, MethodType
from typing import Any, ClassVar, NamedTuple, NoReturn, cast

from jinja2 import Template, TemplateError, TemplateSyntaxError, Undefined, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, pass_context
from jinja2.visitor import NodeTransformer

from lore.errors import LoreError, Where
from lore.prompt import guards
from lore.prompt.guards import FormatMethod, meter_of
from lore.prompt.meter import Meter, RefusedError

MAX_SOURCE = 65_536  # three times the longest in use; the compiler takes quadratic time
_SHOWN = 200
_FILE = "<chat template>"
_FAILURES = (
    TemplateError, ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, MemoryError, NameError,
    RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+")


class Budget(NamedTuple):
    """What a rendering may cost: units of work, characters made."""

    work: int = 1_000_000
    made: int = 16_000_000


class RaisedError(TemplateError):
    """What a template said by `raise_exception`."""


class Sandbox:
    """A compiled template; `file` names it in errors. Raises LoreError where it does not compile.

    Safe to use again and from several threads: a rendering keeps its own count.
    """

    def __init__(self, source: str, functions: Mapping[str, Callable[..., Any]], *, file: str | None = None) -> None:
        self._file = file or "template"
        if len(source) > MAX_SOURCE:
            raise LoreError(
                f"the chat template has {len(source)} characters; {MAX_SOURCE} is the limit", where=Where(self._file)
            )
        environment = _Environment(functions)
        try:
            tree = _Counting().visit(environment.parse(source))
            cast("nodes.Template", tree).set_environment(environment)
            code = environment.compile(tree, filename=_FILE)
            self._template = Template.from_code(environment, code, dict(environment.globals))
        except TemplateSyntaxError as error:
            raise LoreError(
                f"the chat template is not sound: {cleaned(error.message or '')}",
                hint="it must be a Jinja template that stands alone",
                where=Where(self._file, error.lineno),
            ) from None
        except _FAILURES as error:
            raise LoreError(f"the chat template does not compile: {_reason(error)}", where=Where(self._file)) from None

    def render(self, variables: Mapping[str, Any], budget: Budget | None = None) -> str:
        """Render; raises LoreError where the template fails or costs more than the budget."""
        template = self._template
        context = template.new_context({**variables, guards.METER: Meter(*(budget or Budget()))})
        try:
            return "".join(template.root_render_func(context))
        except _FAILURES as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> NoReturn:
        where = Where(self._file, self._line(error))
        if isinstance(error, RaisedError):
            said = cleaned(str(error)) or "(no reason given)"
            raise LoreError(said, hint="the chat template refuses this conversation", where=where) from None
        hint = "a template renders text from its variables; lore gives it no more" * isinstance(error, SecurityError)
        raise LoreError(f"the chat template fails: {_reason(error)}", hint=hint, where=where) from None

    def _line(self, error: BaseException) -> int | None:
        """Return the template's innermost line on the way to the error."""
        line, frame = None, error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == _FILE:
                line = self._template.get_corresponding_lineno(frame.tb_lineno)
            frame = frame.tb_next
        return line


def cleaned(text: str) -> str:
    """Return text for a message: one line, nothing invisible, not long."""
    shown = _UNSEEN.sub(" ", text[: 8 * _SHOWN]).strip()
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"


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


@pass_context
def _shown(context: Context, value: Any) -> str:
    """Charge what `{{ }}` writes."""
    meter = meter_of(context)
    if not isinstance(value, str):
        meter.weigh(value)
        value = str(value)
    meter.make(len(value))
    return value


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox of Jinja, with every operation metered."""

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, finalize=_shown, cache_size=0,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )  # fmt: skip
        self.filters = dict(guards.FILTERS)
        self.tests = dict(guards.TESTS)
        del self.globals["lipsum"]  # random
        self.globals.update(functions)
        self._functions = tuple(self.globals.values())

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        guards.binary(meter_of(context), operator, left, right)
        return self.binop_table[operator](left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter = meter_of(context)
        meter.enter()
        meter.step(len(args) + len(kwargs))
        given = {key: value for key, value in kwargs.items() if key not in ("_loop_vars", "_block_vars")}
        if isinstance(obj, FormatMethod):
            result = obj.call(meter, args, given)
        else:
            self._admit(meter, obj, args, given)
            result = guards.settled(meter, context.call(obj, *args, **kwargs))
        meter.depth -= 1
        return result

    def _admit(self, meter: Meter, obj: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Charge a call; raises RefusedError where the object is nothing that a template may call."""
        owner = getattr(obj, "__self__", None)
        if isinstance(obj, BuiltinMethodType) and owner is not None:
            guards.method(meter, owner, obj.__name__, args, kwargs)
        elif any(obj is one for one in self._functions) or (
            isinstance(obj, MethodType) and isinstance(owner, Cycler | LoopContext)
        ):
            meter.weigh(args)
        elif not isinstance(obj, Macro | LoopContext | BlockReference | Joiner | Undefined):
            raise RefusedError(f"it calls a {type(obj).__name__}, which is nothing to call")

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(argument, tuple):
            raise RefusedError("it looks up a list of keys at once")
        return super().getitem(obj, argument)

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        raise SecurityError(f"it asks for {attribute!r} of a {type(obj).__name__}, which is not allowed")

    def wrap_str_format(self, value: Any) -> Any:
        owner = getattr(value, "__self__", None)
        if not isinstance(value, BuiltinMethodType) or value.__name__ not in ("format", "format_map"):
            return None
        if not isinstance(owner, str):
            return None
        return FormatMethod(str(owner), (self.getattr, self.getitem), is_map=value.__name__ == "format_map")


class _Counting(NodeTransformer):
    """Rewrite a template so that it counts what it does."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        step = _step(node)
        if node.test is not None:
            node.test = nodes.And(step, node.test, lineno=node.lineno)
        return _counted(node, step)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _counted(node, _step(node))

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _counted(node, _step(node))

    def visit_Block(self, node: nodes.Block) -> nodes.Node:  # noqa: N802
        if node.scoped:  # the compiler would copy every variable to every such block
            raise TemplateSyntaxError("scoped blocks are for templates that extend others", node.lineno)
        self.generic_visit(node)
        return _counted(node, _step(node))

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _through(guards.CONCAT, nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if len(node.ops) == 1 and node.ops[0].op in ("eq", "ne") and _is_plain(node.expr, node.ops[0].expr):
            return node  # with a constant: nothing is walked through
        node.expr = _weighed(node.expr)
        for operand in node.ops:
            operand.expr = _weighed(operand.expr)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.key = _weighed(node.key)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        bounds = (node.arg.start, node.arg.stop, node.arg.step)
        none = nodes.Const(None, lineno=node.lineno)
        return _through(guards.SLICE, node.node, *(one or none for one in bounds))

    def _refuse_file(self, node: nodes.Node) -> NoReturn:
        raise TemplateSyntaxError("it asks for another file", node.lineno)

    visit_Include = visit_Import = visit_FromImport = visit_Extends = _refuse_file  # noqa: N815

    def visit_ScopedEvalContextModifier(self, node: nodes.Node) -> NoReturn:  # noqa: N802
        raise TemplateSyntaxError("autoescape is for HTML", node.lineno)


def _counted(node: Any, step: nodes.Expr) -> nodes.Node:
    node.body.insert(0, nodes.ExprStmt(step, lineno=node.lineno))
    return node


def _step(node: nodes.Node) -> nodes.Expr:
    """Charge a body by the nodes and the text in it."""
    work, made = 2, 0
    for one in node.find_all(nodes.Node):
        work += 1
        made += len(one.data) if isinstance(one, nodes.TemplateData) else 0
    charges = [nodes.Const(number, lineno=node.lineno) for number in (work, made)]
    return _through(guards.STEP, nodes.Const(1, lineno=node.lineno), *charges)


def _through(name: str, node: nodes.Expr, *args: nodes.Expr) -> nodes.Expr:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


def _weighed(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _through(guards.WEIGH, node)


def _is_plain(*found: nodes.Expr) -> bool:
    return any(isinstance(one, nodes.Const) for one in found)
