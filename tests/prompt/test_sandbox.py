"""The sandbox: what chat templates do works as in engines, and everything else is refused with a place."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.credentials import SAMPLES
from helpers.each import each
from lore.errors import LoreError
from lore.prompt.dialects.template import Sandbox, moment

MESSAGES = [{"role": "user", "content": " hi "}, {"role": "assistant", "content": "yo", "n": [1, None, True, 0.5]}]
SKIP = """{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% if i > 2 %}{% break %}{% endif %}
{%- endfor %}"""


def rendered(source, **variables):
    return Sandbox(source, {}).render({"messages": MESSAGES, **variables})


@each("source, text", [
    (SKIP, "023"),
    ("a\n{%- if true %}\n  b\n    {% endif %}\nc", "a  b\nc"),
    ("{% generation %}{{ messages|length }}{% endgeneration %}!", "2!"),
    ("{{ {'a': 'é<\"', 'b': [1, none]}|tojson }}", '{"a": "é<\\"", "b": [1, null]}'),
    ("{{ {'a': [1]}|tojson(indent=2) }}", '{\n  "a": [\n    1\n  ]\n}'),
    ("{{ {'b': 1, 'a': 'é'}|tojson(ensure_ascii=true, sort_keys=true) }}", '{"a": "\\u00e9", "b": 1}'),
    ("{{ '<b>' ~ 1 ~ none }}", "<b>1None"),
    ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "2"),
    ("{% macro f(x, y='b') %}[{{ x }}{{ y }}]{% endmacro %}{{ f(1) }}{{ f('a', y=2) }}", "[1b][a2]"),
    ("{{ missing }}{{ missing or 'd' }}{{ messages[1].n|tojson }}", "d[1, null, true, 0.5]"),
])  # fmt: skip
def test_templates_render_as_in_engines(source, text):
    assert rendered(source) == text


@each("source, line, words", [
    ("a\n{{ raise_exception('no \x1b[31m way\n' ~ 'x') }}", 2, "no [31m way x"),
    ("a\n\n{% if %}", 3, "Expected an expression"),
    ("{% for x in y %}", 1, "endfor"),
    ("a\n{{ x.y.z }}", 2, "'x' is undefined"),
    ("a\n{% macro f() %}\n{{ 1 / 0 }}{% endmacro %}\n\n{{ f() }}", 3, "division by zero"),
    ("\n{{ 'a'|nothing }}", 2, "No filter named 'nothing'"),
    ("\n{{ messages|map('upper') }}", 2, "prints a generator"),
    ("\n{{ [1, 2]|random }}", 2, "No filter named 'random'"),
])  # fmt: skip
def test_error_names_line_and_reason(source, line, words):
    with pytest.raises(LoreError) as caught:
        rendered(source)
    assert words in caught.value.message
    assert caught.value.where.line == line
    assert str(caught.value.where) == f"template:{line}"


def test_template_message_is_shortened_and_names_the_file():
    with pytest.raises(LoreError) as caught:
        Sandbox("{{ raise_exception('x' * 5000) }}", {}, file="my.jinja").render({})
    assert caught.value.message == "x" * 199 + "…"
    assert str(caught.value.where) == "my.jinja:1"


@pytest.mark.parametrize("before", ["x" * 160, "x" * 190, "\u200b" * 1_570, "\u200b" * 1_590])
def test_credential_at_a_messages_cut_is_masked(before):
    key = SAMPLES["github"]
    with pytest.raises(LoreError) as failed:
        Sandbox("{{ raise_exception(reason) }}", {}).render({"reason": f"{before} {key.text} " + "y" * 200})
    assert key.secret[:8] not in str(failed.value)


def test_credential_in_the_source_is_not_quoted():
    token = SAMPLES["web token"].text
    with pytest.raises(LoreError, match="a syntax error") as raised:
        Sandbox("{% " + token + " %}", {})
    assert token[4:16] not in raised.value.message


def test_rendering_stops_at_the_output_cap():
    sandbox = Sandbox("{% for i in range(n) %}{{ i % 10 }}{% endfor %}", {})
    assert len(sandbox.render({"n": 100}, 100)) == 100
    with pytest.raises(LoreError, match="writes more than 100 characters") as caught:
        sandbox.render({"n": 101}, 100)
    assert str(caught.value.where) == "template"


SCRIPT = """
import sys
from lore.prompt.dialects.template import JinjaTemplate
from lore.prompt.base import Spot, Unit
from lore.model.items import TextBlock
from lore.model.turn import Prompt
from lore.model.vector import Vector
from msgspec import Raw
t = JinjaTemplate("{{ strftime_now('%A %d %B %Y %H:%M %c %p') }}{% for k in {'b': 1, 'a': 2, 'c': 3} %}{{ k }}"
    "{% endfor %}{{ ['x', 'y', 'z', 'x']|unique|list }}{{ messages }}", now="2026-08-01T23:30:00Z")
u = t.render(Unit("user", (TextBlock(Raw(b'"hi"')),)), Spot())
sys.stdout.buffer.write(t.write(Prompt(dialect="template", fidelity="reconstructed", messages=Vector(u.segments))))
"""


def test_text_depends_on_no_seed_or_locale():
    places = [("0", "C", "UTC"), ("1", "de_DE.UTF-8", "Asia/Tokyo"), ("2", "C.UTF-8", "America/Lima")]
    texts = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, check=True,
            env={"PYTHONHASHSEED": seed, "LC_ALL": name, "TZ": zone},
        ).stdout
        for seed, name, zone in places
    }  # fmt: skip
    assert len(texts) == 1
    assert texts.pop().startswith(b"Saturday 01 August 2026 23:30 Sat Aug  1 23:30:00 2026 PM")


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "", "0001-01-01T00:00:00+14:00"])
def test_moment_refuses_what_is_no_time(text):
    with pytest.raises(LoreError, match="is no time"):
        moment(text)


PIECES = """
{{ }} {% %} {%- -%} {# #} for x in messages range(9) endfor if endif set = ns namespace(s='a') ns.s ~ + * ** %
/ // - 'a' '%s' '%9d' 9 0 -1 1e9 [ ] ( ) { } : , . | tojson join trim format center(9) indent replace('a','b')
sort map attr __class__ upper macro f() endmacro call endcall filter endfilter recursive loop loop(x)
loop.index is defined not and or else elif == < tojson(indent=2) raise_exception('no') break continue
generation endgeneration block b endblock self.b() include 'f' import as with endwith {%set\\nx=1%} m.role
m['content'] [0] [1:] [::-1] .split('a') .items() .format(1) .format lipsum cycler(1,2) dict(a=1) true none
round sum batch(2) slice(2) list first
"""
WORDS = st.sampled_from(PIECES.split())


EXPRESSIONS = st.lists(WORDS, min_size=1, max_size=6).map(lambda words: "{{ " + "".join(words) + " }}")


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(WORDS | st.text(max_size=4), max_size=25).map(" ".join) | EXPRESSIONS)
def test_any_template_renders_or_is_refused(source):
    try:
        message = rendered(source)
    except LoreError as error:
        message = error.message.replace("\n", " at 0x") or " at 0x"
    assert " at 0x" not in message
