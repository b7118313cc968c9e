"""The sandbox: what chat templates do works as in engines, and everything else is refused with a place."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from helpers.credentials import SAMPLES
from lore.errors import LoreError
from lore.prompt.dialects.template import moment, strftime
from lore.prompt.sandbox import Sandbox

MESSAGES = [{"role": "user", "content": " hi "}, {"role": "assistant", "content": "yo", "n": [1, None, True, 0.5]}]
SKIP = """{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% if i > 2 %}{% break %}{% endif %}
{%- endfor %}"""


def rendered(source, **variables):
    return Sandbox(source, {}).render({"messages": MESSAGES, **variables})


def plain(source):
    """What Jinja's own sandbox renders, set up as engines do."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    return environment.from_string(source).render(messages=MESSAGES)


RENDERED = [
    ("{% for m in messages %}{{ m.role }}:{{ m['content']|trim }};{% endfor %}", "user:hi;assistant:yo;"),
    ("{% for m in messages if m.role != 'user' %}{{ loop.index }}{{ m.content[1:] }}{% endfor %}", "1o"),
    (SKIP, "023"),
    ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "2"),
    ("{% macro f(x, y='b') %}[{{ x }}{{ y }}]{% endmacro %}{{ f(1) }}{{ f('a', y=2) }}", "[1b][a2]"),
    ("{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}in{% endcall %}", "<in>"),
    ("{% generation %}{{ messages|length }}{% endgeneration %}!", "2!"),
    ("{{ {'a': 'é<\"', 'b': [1, none]}|tojson }}", '{"a": "é<\\"", "b": [1, null]}'),
    ("{{ {'a': [1]}|tojson(indent=2) }}", '{\n  "a": [\n    1\n  ]\n}'),
    (
        "{{ {'b': 1, 'a': 'é'}|tojson(ensure_ascii=true, sort_keys=true, separators=(',', ':')) }}",
        '{"a":"\\u00e9","b":1}',
    ),
    ("{{ messages[1].n|tojson }}", "[1, null, true, 0.5]"),
    ("{{ '<b>' ~ 1 ~ none }}", "<b>1None"),
    ("{{ messages|map(attribute='role')|map('upper')|join('+') }}", "USER+ASSISTANT"),
    ("{{ messages|selectattr('role', 'equalto', 'user')|list|length }}", "1"),
    ("{{ (messages|rejectattr('n', 'defined')|first).role }}", "user"),
    ("{{ messages[::-1][0].role }}{{ messages[-1]['role'][:2] }}", "assistantas"),
    ("{{ 'a</t>b'.split('</t>')[-1].strip() }}{{ 'ab'.startswith('a') }}{{ 'x'.replace('x', 'yy') }}", "bTrueyy"),
    ("{{ '%s-%03d %%(%(k)s' % {'k': 1} if false else '%s-%03d' % ('a', 7) }}", "a-007"),
    ("{{ '{0:>3}|{a[x]}|{a[x]!r}'.format(1, a={'x': 'z'}) }}{{ '{k}'.format_map({'k': 5}) }}", "  1|z|'z'5"),
    ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"),
    ("{% for k, v in {'b': 2}|items %}{{ k }}{% endfor %}", "b"),
    ("{% for x in [[1, [2]], 3] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}", "123"),
    ("{% filter upper %}a{{ 'b' }}{% endfilter %}{% set x %}c{{ 1 }}{% endset %}{{ x }}", "ABc1"),
    ("{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}", "ab"),
    ("{% set j = joiner(',') %}{{ j() }}{{ j() }}", ","),
    ("a\n{%- if true %}\n  b\n    {% endif %}\nc", "a  b\nc"),
    (
        "{{ 'b' in 'abc' }}{{ 'x' in {'x': 1} }}{{ 1 < 2 <= 2 }}{{ [1] == [1] }}{{ missing is defined }}",
        "TrueTrueTrueTrueFalse",
    ),
    ("{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 ** 5 }}{{ 'ab' * 2 }}{{ [1] + [2] }}{{ 'a' + 'b' }}", "3332abab[1, 2]ab"),
    (
        "{{ 'a\nb'|indent(2, first=true) }}{{ 2.567|round(1) }}{{ [1, 2]|sum }}{{ 'abc'|replace('b', '') }}",
        "  a\n  b2.63ac",
    ),
    (
        "{{ [3, 1, 3]|unique|sort|list }}{{ {'b': 1, 'a': 2}|dictsort }}{{ [1, 2, 3]|batch(2)|list }}",
        "[1, 3][('a', 2), ('b', 1)][[1, 2], [3]]",
    ),
    ("{{ missing }}{{ missing or 'd' }}{{ none|default('x', true) }}", "dx"),
    ("{% block b %}in{% endblock %}{{ self.b() }}", "inin"),
    (
        "{% for m in messages %}{{ loop.previtem is defined }}>{{ loop.nextitem is defined }};{% endfor %}",
        "False>True;True>False;",
    ),
    (
        "{% for k in {'a': 1, 'b': 2} if k not in ['a'] %}{{ '<' ~ k ~ '>' ~ (k|string) }}{% endfor %}",
        "<b>b",
    ),
    ("{% for m in messages %}{% if m.role %}{% set m = m.role %}{% endif %}{{ m }}{% endfor %}", "userassistant"),
    ("{{ 'x<' + ('y<'|safe) }}{{ ('y<'|safe) ~ '<' }}{{ '<' ~ ['<']|join }}", "x&lt;y<y<<<<"),
    ("{% if messages[0]['role'] in ['system', 'user'] %}{{ messages[1:]|length }}{% endif %}", "1"),
    (
        "{% set a = 1 if x is defined and x else 2 %}{{ a }}{{ ',' if not a }}{{ '\\n'|length }}{{ -a }}{{ not a }}",
        "21-2False",
    ),
    ("{% for g in messages|groupby('role') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}", "assistant1user1"),
]


@pytest.mark.parametrize(("source", "text"), RENDERED)
def test_it_renders_what_chat_templates_do(source, text):
    assert rendered(source) == text


@pytest.mark.parametrize("source", [one for one, _ in RENDERED if "tojson" not in one and "generation" not in one])
def test_sandbox_renders_the_same_text_as_jinja(source):
    assert rendered(source) == plain(source)


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("a\n{{ raise_exception('no \x1b[31m way\n' ~ 'x') }}", 2, "no [31m way x"),
        ("a\n\n{% if %}", 3, "Expected an expression"),
        ("{% for x in y %}", 1, "endfor"),
        ("a\n{{ x.y.z }}", 2, "'x' is undefined"),
        ("a\n{% macro f() %}\n{{ 1 / 0 }}{% endmacro %}\n\n{{ f() }}", 3, "division by zero"),
        ("\n{{ 'a'|nothing }}", 2, "No filter named 'nothing'"),
        ("\n{{ messages|map('upper') }}", 2, "prints a generator"),
        ("\n{{ [1, 2]|random }}", 2, "No filter named 'random'"),
    ],
)
def test_an_error_names_its_line_and_reason(source, line, words):
    with pytest.raises(LoreError) as caught:
        rendered(source)
    assert words in caught.value.message
    assert caught.value.where.line == line
    assert str(caught.value.where) == f"template:{line}"


def test_what_a_template_says_is_shortened_and_names_the_file():
    with pytest.raises(LoreError) as caught:
        Sandbox("{{ raise_exception('x' * 5000) }}", {}, file="my.jinja").render({})
    assert caught.value.message == "x" * 199 + "…"
    assert str(caught.value.where) == "my.jinja:1"


def test_a_credential_that_the_end_of_a_message_cuts_is_masked():
    """What a template says was cut first, and what was left of a key had no longer the form of one."""
    key = SAMPLES["github"]
    for before in range(150, 200, 7):
        with pytest.raises(LoreError) as failed:
            Sandbox("{{ raise_exception(said) }}", {}).render({"said": "x" * before + f" {key.text} " + "y" * 200})
        assert key.secret[:8] not in str(failed.value)


def test_a_word_that_jinja_took_out_of_a_credential_is_masked():
    """`{% eyJ….eyJ….… %}` is an unknown tag to it, and of three parts it quoted the first."""
    token = SAMPLES["web token"].text
    with pytest.raises(LoreError) as raised:
        Sandbox("{% " + token + " %}", {})
    assert token[4:16] not in raised.value.message
    for source, quoted in {"{% unfamiliar %}": "'unfamiliar'", "{% filter upper %}": "'endfilter'"}.items():
        with pytest.raises(LoreError, match=quoted):
            Sandbox(source, {})


def test_a_credential_behind_much_that_cannot_be_seen_is_masked():
    """What is looked at was cut before it was masked: 1,580 invisible characters became one space before a cut key."""
    key = SAMPLES["github"]
    for before in range(1_560, 1_600, 7):
        with pytest.raises(LoreError) as failed:
            Sandbox("{{ raise_exception(said) }}", {}).render({"said": "\u200b" * before + f" {key.text} "})
        assert key.secret[:8] not in str(failed.value)


def test_rendering_stops_at_the_output_cap():
    sandbox = Sandbox("{% for i in range(n) %}{{ i % 10 }}{% endfor %}", {})
    assert len(sandbox.render({"n": 100}, 100)) == 100
    with pytest.raises(LoreError, match="writes more than 100 characters") as caught:
        sandbox.render({"n": 101}, 100)
    assert str(caught.value.where) == "template"


SCRIPT = """
import locale, sys
from lore.prompt.dialects.template import JinjaTemplate
from lore.prompt.base import Spot, Unit
from lore.model.items import TextBlock
from lore.model.turn import Prompt
from lore.model.vector import Vector
from msgspec import Raw
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
t = JinjaTemplate("{{ strftime_now('%A %d %B %Y %H:%M %c %p') }}{% for k in {'b': 1, 'a': 2, 'c': 3} %}{{ k }}"
    "{% endfor %}{{ ['x', 'y', 'z', 'x']|unique|list }}{{ messages }}", now="2026-08-01T23:30:00Z")
u = t.render(Unit("user", (TextBlock(Raw(b'"hi"')),)), Spot())
sys.stdout.buffer.write(t.write(Prompt(dialect="template", fidelity="reconstructed", messages=Vector(u.segments))))
"""


def test_the_text_is_the_same_under_any_hash_seed_locale_and_time_zone():
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


FIRST = datetime(1900, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # hypothesis wants it so


@given(st.datetimes(min_value=FIRST, timezones=st.just(UTC)), st.sampled_from("YymdHIMSfjwAaBbpFT%"))
def test_a_time_is_formatted_as_python_does_in_english(now, directive):
    assert strftime(now, f"x%{directive}y") == now.strftime(f"x%{directive}y")


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "", "0001-01-01T00:00:00+14:00"])
def test_what_is_no_time_is_refused(text):
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


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS | st.text(max_size=4), max_size=25).map(" ".join))
def test_any_text_renders_or_is_refused(source):
    _renders_or_is_refused(source)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(WORDS, min_size=1, max_size=6).map(lambda words: "{{ " + "".join(words) + " }}"), max_size=3))
def test_any_expression_renders_or_is_refused(parts):
    for part in parts:
        _renders_or_is_refused(part)


def _renders_or_is_refused(source):
    assert _outcome(source)


def _outcome(source):
    """What is shown, or the one line that says why nothing is."""
    try:
        text = Sandbox(source, {}).render({"messages": MESSAGES})
    except LoreError as error:
        return error.message and "\n" not in error.message
    return " at 0x" not in text
