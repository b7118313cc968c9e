"""Templates that reach for files or Python, or write without end: each ends in a clear error or harmless text."""

import itertools
import re

import pytest

from lore.errors import LoreError
from lore.prompt.dialects.template import Sandbox

MESSAGES = [{"role": "user", "content": "hi " * 1000, "n": list(range(100))}]


def error_of(source):
    with pytest.raises(LoreError) as caught:
        Sandbox(source, {}).render({"messages": MESSAGES})
    return caught.value


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
    "import": "{% import 'x' as y %}",
    "from": "{% from 'x' import y %}",
    "extends": "{% extends 'x' %}",
    "inside a branch": "{% if true %}{% include 'x' %}{% endif %}",
}
ATTRIBUTES = [
    "'{0[__class__]}'.format('')", "'{x.__class__}'.format_map({'x': 1})", "messages.append(1)",
    "messages[0].update(a=1)", "messages|map('attr', '__class__')|list", "(messages|first).pop('role')",
    "namespace.__class__.mro()",
]  # fmt: skip
OUTPUTS = {
    "text in a loop": "{% for i in range(99999) %}" + "x" * 50000 + "{% endfor %}",
    "text in a macro in a loop": "{% macro f() %}" + "x" * 50000 + "{% endmacro %}{% for i in range(99999) %}"
    "{{ f() }}{% endfor %}",
    "a variable in a loop": "{% for i in range(99999) %}{{ messages[0].content }}{% endfor %}",
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
}
SHAPES = {
    "many loops in each other": "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
    "many branches in each other": "{% if 1 %}" * 500 + "{% endif %}" * 500,
    "many brackets": "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
    "many lists": "{{ " + "[" * 400 + "]" * 400 + " }}",
    "a long sum": "{{ " + "1+" * 9999 + "1 }}",
    "a number of many digits": "{{ " + "9" * 9999 + " }}",
    "no end": "{% raw %}" * 999,
    "a bad character": "{{ \x00 }}",
}


@pytest.mark.parametrize("source", DEEP.values(), ids=DEEP)
def test_endless_recursion_is_stopped(source):
    assert "nests too deeply" in error_of(source).message


@pytest.mark.parametrize("source", FILES.values(), ids=FILES)
def test_template_reads_no_file(source):
    error = error_of("\n" + source)
    assert "asks for another file" in error.message
    assert error.where.line == 2


@pytest.mark.parametrize("expression", ATTRIBUTES)
def test_template_reads_no_python_attribute(expression):
    try:
        text = Sandbox("{{ " + expression + " }}", {}).render({"messages": MESSAGES})
    except LoreError as error:
        text = error.message.partition("access to attribute ")[2]
    assert text in ("", "[Undefined]") or text.endswith(" object is unsafe.")


SUBJECTS = ("''", "messages", "messages[0]", "self", "cycler", "namespace", "raise_exception", "loop", "joiner()")
MEMBERS = ("__class__", "__globals__", "__init__", "__mro__", "__subclasses__", "gi_frame", "func_code", "__dict__")
WAYS = ("{0}.{1}", "{0}['{1}']", "{0}|attr('{1}')", "[{0}]|map(attribute='{1}')|list", "'{{0.{1}}}'.format({0})",
        "[{0}]|map('attr','{1}')|list", "({0},)|first|attr('{1}')", "{0}|attr('{1}'|lower)")  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_template_shows_no_python_object(way):
    for subject, member in itertools.product(SUBJECTS, MEMBERS):
        try:
            text = Sandbox("{{ " + way.format(subject, member) + " }}", {}).render({"messages": MESSAGES})
        except LoreError:
            continue
        assert not re.search(r"<class|<function|<built-in|<module|0x[0-9a-f]{6}", text), (subject, member)


@pytest.mark.parametrize("source", OUTPUTS.values(), ids=OUTPUTS)
def test_output_is_bounded(source):
    assert "writes more than 1,000,000 characters" in error_of(source).message


@pytest.mark.parametrize("source", SHAPES.values(), ids=SHAPES)
def test_template_of_an_odd_shape_is_refused(source):
    assert error_of(source).message.startswith("the chat template")


@pytest.mark.parametrize(
    "expression",
    ["raise_exception", "messages.items", "loop", "self", "cycler", "namespace(a=1)", "messages|map", "''.join",
     "''.format", "{}.items", "joiner(',')"],
)  # fmt: skip
def test_template_prints_no_memory_address(expression):
    assert " at 0x" not in error_of("{% macro m() %}{% endmacro %}{{ " + expression + " }}{{ m }}").message


def test_template_has_no_randomness_or_clock():
    for expression in ("lipsum()", "[1, 2]|random", "now()", "strftime('%Y')"):
        assert error_of("{{ " + expression + " }}").message
