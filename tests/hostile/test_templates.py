"""Templates that nobody vouches for: each ends in a clear error after little work, and in nothing else.

Work is counted, so these are no tests of speed: the limits are the same on every machine.
"""

from __future__ import annotations

import pytest

from lore.errors import LoreError
from lore.prompt.sandbox import MAX_SOURCE, Sandbox

MESSAGES = [{"role": "user", "content": "hi " * 1000, "n": list(range(100))}]
GROW = "{% set ns = namespace(s=START) %}{% for i in range(99) %}{% set ns.s = STEP %}{% endfor %}"


def grown(start, step, use):
    return GROW.replace("START", start).replace("STEP", step) + "{{ " + use + " }}"


def error_of(source):
    with pytest.raises(LoreError) as caught:
        Sandbox(source, {}).render({"messages": MESSAGES})
    return caught.value


WORK = "far more work|far more text"

LOOPS = {
    "nested ranges": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a loop whose filter lets nothing through": "{% for a in range(99999) if false %}{% endfor %}" * 50,
    "a loop over a macro's loop": "{% macro f() %}{% for a in range(99999) %}{% endfor %}{% endmacro %}"
    "{% for a in range(99999) %}{{ f() }}{% endfor %}",
    "filters instead of loops": "{% for a in range(99999) %}{% set x = range(99999)|map('abs')|list %}{% endfor %}",
    "selections that are never read": "{% for a in range(99999) %}{% set x = range(99999)|select %}{% endfor %}",
    "comparisons": "{% set x = range(99999)|list %}{% for a in x %}{% if x == x[:] %}{% endif %}{% endfor %}",
    "membership": "{% set x = range(99999)|list %}{% for a in x %}{% if 'a' in x %}{% endif %}{% endfor %}",
    "slices": "{% set x = range(99999)|list %}{% for a in x %}{% set y = x[1:] %}{% endfor %}",
    "a wide body": "{% for a in range(99999) %}" + "{{ a.b }}" * 5000 + "{% endfor %}",
    "macros that call themselves twice": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}"
    "{{ f(60) }}",
    "a recursive loop that forks": "{% for x in [1, 2] recursive %}{% if loop.depth < 60 %}{{ loop([1, 2]) }}"
    "{% endif %}{% endfor %}",
    "blocks that fork": "{% set ns = namespace(n=0) %}{% block a %}{% if ns.n < 1 %}{{ self.a() }}{{ self.a() }}"
    "{% endif %}{% endblock %}",
}
DEEP = {
    "a macro without end": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "two macros without end": "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
    "a call block without end": "{% macro f() %}{% call f() %}{% endcall %}{{ caller() }}{% endmacro %}"
    "{% call f() %}{% endcall %}",
    "a recursive loop without end": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "a block in itself": "{% block a %}{{ self.a() }}{% endblock %}",
}
FILES = {
    "include": "{% include 'x' %}",
    "include, whether there is one or not": "{% include 'x' ignore missing %}",
    "import": "{% import 'x' as y %}",
    "from": "{% from 'x' import y %}",
    "extends": "{% extends 'x' %}",
    "inside a branch": "{% if false %}{% include name %}{% endif %}",
}
ATTRIBUTES = [
    "''.__class__", "''['__class__']", "''|attr('__class__')", "messages|map(attribute='__class__')|list",
    "'{0.__class__}'.format(1)", "'{0[__class__]}'.format('')", "'{x.__class__}'.format_map({'x': 1})",
    "raise_exception.__globals__", "messages.append(1)", "messages[0].update(a=1)", "self.__init__", "cycler.__init__",
    "messages|map('attr', '__class__')|list", "(messages|first).pop('role')", "namespace.__class__.mro()",
]  # fmt: skip
SIZES = [
    "'a' * 10**10", "10**10 * 'a'", "[[1] * 999] * 9999999", "'%1000000000d' % 1", "'%.1000000000f' % 1",
    "'%*d' % (1000000000, 1)", "'%(a)1000000000d' % {'a': 1}", "'%1000000000d'|format(1)",
    "'%(a%)9999999d' % {'a%': 1}", "'{:1000000000}'.format(1)", "'{:{}}'.format(1, 10**9)",
    "'{:.{n}f}'.format(1, n=10**9)", "'a'|center(1000000000)", "'a'.center(10**9)", "'a'.ljust(10**9)",
    "'7'.zfill(10**9)", "'a'.expandtabs(10**9)", "(9**99)**999", "9**(9**9)", "(2**4000) * (2**4000)",
    "1|round(-1000000000)", "1|round(1000000, 'floor')", "[1]|batch(1000000000, 'x')", "[1]|slice(1000000000)",
    "range(10**10)", "'aa'.replace('a', 'b' * 9999).replace('b', 'c' * 9999)",
    "'aa'|replace('a', 'b' * 9999)|replace('b', 'c' * 9999)", "('b' * 9999).join('a' * 9999)",
    "('a' * 9999)|join('b' * 9999)", "('\\n' * 9999)|indent(99999, true, true)", "messages|tojson(indent=10**9)",
    "[1]|tojson(separators=('a' * 99, ''))", "('f' * 99999)|int(base=16) * 2", "(1).__class__", "'%s' * 9999999 % 1",
    "[[1], [2]]|sum(start=[])", "'a'.translate({97: 'b' * 99})", "('%s' * 9999) % (('a' * 9999,) * 9999)",
    "('{0}' * 9999).format('a' * 9999)", "'a'.encode()", "(1).to_bytes(10**9)",
    "'%1000000000d' is odd", "'%1000000000d' is divisibleby(7)", "'a'|round(9, 'floor')", "[1]|round(9, 'ceil')",
    "'%.*f' % (1000000000, 1)", "'%*d'|format(1000000000, 1)", "'%00000000000000999999999d' % 1",
    "'%999999999d' is even", "('a' * 9999).strip('b' * 9999)", "('a' * 9999).rfind('b' * 9999)",
]  # fmt: skip
GRAPHS = {
    "text that doubles": grown("'aaaaaaaaaa'", "ns.s ~ ns.s", "ns.s"),
    "text that doubles by +": grown("'aaaaaaaaaa'", "ns.s + ns.s", "ns.s"),
    "text that doubles by %": grown("'aaaaaaaaaa'", "'%s%s' % (ns.s, ns.s)", "ns.s"),
    "text that doubles by format": grown("'aaaaaaaaaa'", "'{0}{0}'.format(ns.s)", "ns.s"),
    "text that doubles by join": grown("'aaaaaaaaaa'", "[ns.s, ns.s]|join", "ns.s"),
    "lists that double": grown("[1]", "ns.s + ns.s", "ns.s"),
    "a small graph shown": grown("[1]", "[ns.s, ns.s]", "ns.s"),
    "a small graph as JSON": grown("[1]", "{'a': ns.s, 'b': ns.s}", "ns.s|tojson"),
    "a small graph as text": grown("[1]", "[ns.s, ns.s]", "ns.s|string"),
    "a small graph joined": grown("[1]", "[ns.s, ns.s]", "ns.s|join"),
    "a small graph formatted": grown("[1]", "[ns.s, ns.s]", "'%s' % [ns.s]"),
    "a small graph in braces": grown("[1]", "[ns.s, ns.s]", "'{0!r}'.format(ns.s)"),
    "a small graph compared": grown("[1]", "[ns.s, ns.s]", "ns.s == ns.s[:]"),
    "a small graph sorted": grown("[1]", "[ns.s, ns.s]", "[ns.s, ns.s[:]]|sort"),
    "a small graph as a key": grown("(1,)", "(ns.s, ns.s)", "{ns.s: 1}"),
    "a small graph looked up": grown("(1,)", "(ns.s, ns.s)", "{}[ns.s]"),
    "a small graph asked for": grown("(1,)", "(ns.s, ns.s)", "{}.get(ns.s)"),
    "a small graph tested": grown("[1]", "[ns.s, ns.s]", "[ns.s]|select('eq', [ns.s[:]])|list"),
    "a small graph as a filter's name": grown("(1,)", "(ns.s, ns.s)", "ns.s is filter"),
    "a small graph as a reason": grown("[1]", "[ns.s, ns.s]", "raise_exception(message=ns.s)"),
    "text in a loop": "{% for i in range(99999) %}" + "x" * 50000 + "{% endfor %}",
    "text in a macro in a loop": "{% macro f() %}" + "x" * 50000 + "{% endmacro %}{% for i in range(99999) %}"
    "{% set x %}{{ f() }}{% endset %}{% endfor %}",
    "a variable in a loop": "{% for i in range(99999) %}{{ messages[0].content }}{% endfor %}",
}
SHAPES = {
    "many loops in each other": "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
    "many branches in each other": "{% if 1 %}" * 500 + "{% endif %}" * 500,
    "many brackets": "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
    "many lists": "{{ " + "[" * 400 + "]" * 400 + " }}",
    "a long sum": "{{ " + "1+" * 9999 + "1 }}",
    "a number of many digits": "{{ " + "9" * 9999 + " }}",
    "scoped blocks": "".join(
        "{%set a" + str(n) + "=1%}{%block b" + str(n) + " scoped%}{%endblock%}" for n in range(1000)
    ),
    "too long": " " * (MAX_SOURCE + 1),
    "no end": "{% raw %}" * 999,
    "a bad character": "{{ \x00 }}",
}


@pytest.mark.parametrize("source", LOOPS.values(), ids=LOOPS)
def test_a_loop_without_end_is_stopped(source):
    error = error_of(source)
    assert any(words in error.message for words in (*WORK.split("|"), "deep"))
    assert error.where.line == 1


@pytest.mark.parametrize("source", DEEP.values(), ids=DEEP)
def test_a_recursion_without_end_is_stopped(source):
    assert "64 deep" in error_of(source).message


@pytest.mark.parametrize("source", FILES.values(), ids=FILES)
def test_a_template_gets_no_file(source):
    error = error_of("\n" + source)
    assert "asks for another file" in error.message
    assert error.where.line == 2


@pytest.mark.parametrize("expression", ATTRIBUTES)
def test_a_template_gets_no_attribute_of_python(expression):
    error = error_of("{{ " + expression + " }}")
    assert "not allowed" in error.message or "data" in error.message or "undefined" in error.message


@pytest.mark.parametrize("expression", SIZES)
def test_nothing_is_multiplied_beyond_measure(expression):
    assert error_of("{{ " + expression + " }}").where.line == 1


@pytest.mark.parametrize("source", GRAPHS.values(), ids=GRAPHS)
def test_nothing_grows_beyond_measure(source):
    assert any(words in error_of(source).message for words in (*WORK.split("|"), "list of keys"))


@pytest.mark.parametrize("source", SHAPES.values(), ids=SHAPES)
def test_a_template_of_a_shape_that_nobody_writes_is_refused(source):
    assert error_of(source).message.startswith("the chat template")


@pytest.mark.parametrize(
    "expression",
    ["raise_exception", "messages.items", "loop", "self", "cycler", "namespace(a=1)", "messages|map", "''.join",
     "''.format", "{}.items", "joiner(',')"],
)  # fmt: skip
def test_what_would_show_an_address_is_refused(expression):
    assert " at 0x" not in error_of("{% macro m() %}{% endmacro %}{{ " + expression + " }}{{ m }}").message


def test_a_template_has_no_chance_and_no_clock():
    for expression in ("lipsum()", "[1, 2]|random", "now()", "strftime('%Y')"):
        assert error_of("{{ " + expression + " }}").message


def test_sets_whose_order_is_chance_cannot_be_made():
    for operator in "-/":
        assert "no numbers" in error_of("{{ {'a': 1}.keys() " + operator + " {}.keys() }}").message
