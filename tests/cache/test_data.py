"""The packaged tables: every row is complete and sourced, and related rows agree."""

import re
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path

import lore
from cache.compile_tables import compiled
from helpers.each import each
from lore.cache.breakpoint_rules import packaged_breakpoints
from lore.cache.rule_file import read_rules
from lore.cache.rules import FOR_READING, RULES, TOOLS, seconds
from lore.cache.served import normal_name
from lore.run.rules import packaged

FILES = sorted((Path(lore.__file__).parent / "cache" / "data").glob("*.toml"))
ROWS = packaged().rows
URL = re.compile(r"https://[a-z0-9.-]+\.[a-z]+/[\w./-]*")
PROVIDERS = {"anthropic", "openai", "gemini", "deepseek", "qwen", "moonshot", "xai", "zai", "*",
             "vllm", "sglang", "llama.cpp", "lmcache", "claude-code"}  # fmt: skip
OF_TOOLS = {f"price_{tool}" for tool in TOOLS}  # the same whatever model asks for them
NEVER_FOR_ALL = ("minimum_tokens", *(rule for rule in RULES if rule.startswith("price_") and rule not in OF_TOOLS))
PRICED = sorted({(row.provider, row.model, row.valid_from) for row in ROWS if row.rule == "price_uncached"})
CLAUDES = sorted({(model, since) for provider, model, since in PRICED if provider == "anthropic"})


@each(ROWS)
def test_each_row_of_rules_is_complete(row):
    assert date(1970, 1, 1) < row.valid_from < date(2028, 1, 1)
    assert row.source == "measured" or URL.fullmatch(row.source)
    assert row.unit == RULES[row.rule][1]
    assert row.provider in PROVIDERS
    assert fnmatchcase(re.sub(r"\[(.)[^]]*\]", r"\1", row.model).replace("*", "x"), row.model)
    assert row.model != "*" or row.rule not in NEVER_FOR_ALL  # an unknown model is unknown
    assert any(sign in row.model for sign in "*?[") or normal_name(row.model) == row.model  # else nothing ever matches


def test_second_hand_prices_are_labelled():
    """Claude Sonnet 3.5 was no longer on the price page when the table was made, but the row named that page."""
    rows = [row for row in ROWS if row.model == "claude-sonnet-3-5" and row.rule.startswith("price_")]
    assert {row.evidence for row in rows} == {"S"}


def test_packaged_rows_are_unique():
    keys = [row.key for row in ROWS]
    assert len(set(keys)) == len(keys)


@each(FILES)
def test_table_has_a_date_and_rows(path):
    table = read_rules(path.read_text("utf-8"), path.name)
    assert table.as_of is not None
    assert table.rows or table.breakpoints
    assert path.read_text("utf-8").startswith("# ")


def test_compiled_tables_equal_the_toml_files():
    stale = [path.name for path, text in compiled() if path.read_text("utf-8") != text]
    assert stale == [], "run make data"


def test_compiled_rows_equal_the_toml_files():
    tables = [read_rules(path.read_text("utf-8"), path.name) for path in FILES]
    assert packaged().rows == tuple(row for table in tables for row in table.rows)
    assert {type(row.value) for row in packaged().rows} <= {Decimal, bool, str, type(None)}
    assert packaged_breakpoints() == tuple(row for table in tables for row in table.breakpoints)
    assert packaged().as_of == max(table.as_of for table in tables)


def test_every_rule_has_a_row():
    assert {row.rule for row in ROWS} == set(RULES)


@each("model, since", CLAUDES)
def test_a_claude_models_prices_are_the_documented_multiples(model, since):
    for prompt in (None, 150_000):
        rules, at = packaged(), max(seconds(since), seconds(date(2026, 10, 7)))
        price = rules.price("anthropic", model, at=at, prompt_tokens=prompt)
        multiples = [
            rules.number(f"multiple_{kind}", "anthropic", model, at=at) for kind in ("write_5m", "write_1h", "read")
        ]
        prices = [price.uncached * multiple for multiple in multiples]
        if model == "claude-haiku-3":  # rounded down to whole cents a million
            prices = [Decimal("0.30"), Decimal("0.50"), Decimal("0.03")]
        assert [price.write_5m, price.write_1h, price.read] == prices
        assert price.output == 5 * price.uncached
        assert multiples[:2] == [Decimal("1.25"), 2]


@each([row for row in ROWS if row.provider == "openai" and row.rule == "price_write"])
def test_openais_writes_and_reads_are_the_documented_multiples(row):
    rules = packaged()
    price = rules.price("openai", row.model)
    assert price.write == price.uncached * rules.number("multiple_write", "openai", row.model)
    assert price.read == price.uncached * rules.number("multiple_read", "openai", row.model)


@each(PRICED)
def test_priced_model_has_all_prices_and_a_minimum(priced):
    provider, model, since = priced
    name = re.sub(r"\*$", "", model)
    assert packaged().find("price_output", provider, name, at=seconds(since)) is not None
    denied = packaged().find("caches_unmarked", provider, name, at=seconds(since))
    for rule in ("price_read", "minimum_tokens") if denied is None else ():
        assert packaged().find(rule, provider, name, at=seconds(since)) is not None, rule


def test_rule_is_marked_as_used_by_predictions():
    """Rows that no prediction uses were printed like the others."""
    source = Path(__file__).parents[2] / "src"
    tables = ("rules.py", "rule_file.py", "lint.py")  # lint reads rows, and predicts nothing
    files = [path for path in source.rglob("*.py") if path.name not in tables and path.parent.name != "store"]
    text = "".join(path.read_text("utf-8") for path in files)
    for rule in RULES:
        if not rule.startswith(("price_", "multiple_", "list_prices", "peak_hours", "output_")):  # of prices
            assert (f'"{rule}"' in text) != (rule in FOR_READING), rule
