"""Run a chat template that nobody vouches for: it renders or it is refused, after a bounded amount of work.

In: a template's text, variables. Out: text, or LoreError with the template's line. Rules: no file, no clock, no
chance, no timer; nothing whose order or text depends on the process (sets, addresses) is reachable. Work is counted
(`meter.py`): a body that can run again begins with a charge, and operators that would compile to bare Python go
through a filter. Nothing is computed while compiling.

Why work is counted here and no child process with limits renders instead, measured over the 116 attacks of
`tests/hostile/test_templates.py` with Jinja's sandbox alone in such a child: 23 to 39 ended by a signal, and which
were rendered or refused hung on the limits that were set, and so on the machine (21 of them between two settings).
Systems without a limit on memory would have nothing that holds what multiplies. A rendering of 2.5 MB took 18 to 22 ms
of CPU here and 31 to 33 there, where the child itself took another 106.

How engines set up the environment: Hugging Face transformers, `apply_chat_template` (trimmed blocks, loop
controls, `generation` blocks rendered through, `raise_exception`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import BuiltinMethodType, MethodType
from typing import Any, ClassVar, NoReturn, cast

from jinja2 import Template, TemplateError, TemplateSyntaxError, Undefined, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, pass_context
from jinja2.visitor import NodeTransformer

from lore.errors import LoreError, Where
from lore.model.mask import cut_masked, mask
from lore.prompt.meter import FILTERS, MADE, METER, TESTS, WORK, Meter, SandboxError, call_method, meter_of, shown

MAX_SOURCE = 65_536  # characters of a template, three times the longest in use; compiling takes quadratic time
MAX_DEPTH = 64  # levels of calls: macros, recursive loops, blocks
_FILE = "<chat template>"
_SHOWN = 200  # characters of what a template says
_LOOKED_AT = 1_600  # characters of a template's message, before invisible ones are left out
_FAILURES = (
    TemplateError, ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, MemoryError, NameError,
    RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
_QUOTED = re.compile(r"(?<=')[^'\s]{8,}(?=')")
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+")


class _RaisedError(TemplateError):
    """What a template says by `raise_exception`."""


class Sandbox:
    """A compiled template that may call some functions; `file` names it in errors. Raises LoreError as it compiles.

    Safe to use again and from several threads: a rendering keeps its own count.
    """

    def __init__(self, source: str, functions: Mapping[str, Callable[..., Any]], *, file: str | None = None) -> None:
        self._file = file or "template"
        where = Where(self._file)
        if len(source) > MAX_SOURCE:
            raise LoreError(f"the chat template has {len(source)} characters; {MAX_SOURCE} is the limit", where=where)
        environment = _Environment(functions)
        try:
            tree = _Counting().visit(environment.parse(source))
            cast("nodes.Template", tree).set_environment(environment)
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

    def render(self, variables: Mapping[str, Any], work: int = WORK) -> str:
        """Render; raises LoreError where the template fails or takes more than so much work."""
        context = self._template.new_context({**variables, METER: Meter(work)})
        try:
            return "".join(self._template.root_render_func(context))
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


@pass_context
def _raise(context: Context, message: object = "") -> NoReturn:
    meter_of(context).weigh(message)
    raise _RaisedError(cleaned(str(message)))


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox of Jinja, with every operation metered."""

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, finalize=shown, cache_size=0,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )  # fmt: skip
        self.filters = FILTERS
        self.tests = TESTS
        del self.globals["lipsum"]  # random
        own: dict[str, Callable[..., Any]] = {**functions, "raise_exception": _raise}
        self.globals.update(own)
        self._functions = tuple(self.globals.values())

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        meter = meter_of(context)
        meter.admit(operator, left, right)
        return meter.settled(self.binop_table[operator](left, right))

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter = meter_of(context)
        meter.step(2 + len(args) + len(kwargs))
        meter.depth += 1
        if meter.depth > MAX_DEPTH:
            raise SandboxError(f"its macros or loops call each other more than {MAX_DEPTH} deep")
        owner = getattr(obj, "__self__", None)
        if isinstance(obj, BuiltinMethodType) and owner is not None:
            given = {key: value for key, value in kwargs.items() if key not in ("_loop_vars", "_block_vars")}
            result = call_method(self, meter, obj, args, given)
        else:
            if any(obj is function for function in self._functions) or (
                isinstance(obj, MethodType) and isinstance(owner, Cycler | LoopContext)
            ):
                meter.weigh(*args)
            elif not isinstance(obj, Macro | LoopContext | BlockReference | Joiner | Undefined):
                raise SandboxError(f"it calls a {type(obj).__name__}, which is nothing to call")
            result = context.call(obj, *args, **kwargs)
        meter.depth -= 1
        return meter.settled(result)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(argument, tuple):
            raise SandboxError("it looks up a list of keys at once")
        return super().getitem(obj, argument)

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        raise SecurityError(f"it asks for {attribute!r} of a {type(obj).__name__}, which is not allowed")

    def wrap_str_format(self, value: Any) -> None:
        """Leave it to `call`, which has the meter: nothing else calls a method."""


class _Counting(NodeTransformer):
    """Rewrite a template so that it counts what it does; what compiles to bare Python goes through a filter."""

    def _body(self, node: Any) -> nodes.Node:
        """Begin a body that can run again with a charge by the nodes and the text in it."""
        if isinstance(node, nodes.Block) and node.scoped:  # the compiler would copy every variable to each such block
            raise TemplateSyntaxError("scoped blocks are for templates that extend others", node.lineno)
        self.generic_visit(node)
        work = 2
        for inner in node.find_all(nodes.Node):
            work += 1 + (len(inner.data) // MADE if isinstance(inner, nodes.TemplateData) else 0)
        step = _filter("(step)", nodes.Const(1, lineno=node.lineno), nodes.Const(work, lineno=node.lineno))
        if isinstance(node, nodes.For) and node.test is not None:
            node.test = nodes.And(step, node.test, lineno=node.lineno)
        node.body.insert(0, nodes.ExprStmt(step, lineno=node.lineno))
        return node

    visit_For = visit_Macro = visit_CallBlock = visit_Block = _body  # noqa: N815

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter("join", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        left, right = node.expr, node.ops[0]
        if len(node.ops) == 1 and right.op in ("eq", "ne") and nodes.Const in (type(left), type(right.expr)):
            return node  # with a constant: nothing is walked through
        node.expr = _weighed(left)
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
        none = nodes.Const(None, lineno=node.lineno)
        return _filter("(slice)", node.node, *(x or none for x in (node.arg.start, node.arg.stop, node.arg.step)))

    def _refuse_file(self, node: nodes.Node) -> NoReturn:
        raise TemplateSyntaxError("it asks for another file", node.lineno)

    visit_Include = visit_Import = visit_FromImport = visit_Extends = _refuse_file  # noqa: N815

    def visit_ScopedEvalContextModifier(self, node: nodes.Node) -> NoReturn:  # noqa: N802
        raise TemplateSyntaxError("autoescape is for HTML", node.lineno)


def _filter(name: str, node: nodes.Expr, *args: nodes.Expr) -> nodes.Expr:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


def _weighed(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _filter("(weigh)", node)
