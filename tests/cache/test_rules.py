"""Rules: which row holds at a time, prices and minima from rows, and files of rules with their errors."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from lore.cache.breakpoint_rules import ALWAYS
from lore.cache.lookback import LOOKBACKS
from lore.cache.rule_file import read_rules
from lore.cache.rules import RULES, DatedRules, hour_spans
from lore.cache.served import LONGEST, normal_name, served
from lore.errors import LoreError
from lore.run.rules import packaged


def day(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def rules(*rows):
    """Rules of rows that are written in short: a rule, a value, further keys."""
    text = "".join(f"[[rules]]\nprovider='p'\nrule='{rule}'\nvalue={value}\n{more}\n" for rule, value, more in rows)
    return DatedRules(read_rules(text, "t.toml").rows)


def test_most_specific_model_then_platform_then_date_holds():
    rule_set = rules(
        ("minimum_tokens", 1, "model='*'\nvalid_from=2026-01-01"),
        ("minimum_tokens", 2, "model='*'\nplatform='bedrock'"),
        ("minimum_tokens", 3, "model='m-[45]*'"),
        ("minimum_tokens", 4, "model='m-4*'"),
        ("minimum_tokens", 5, "model='m-4*'\nplatform='vertex'"),
        ("minimum_tokens", 6, "model='m-4'"),
        ("minimum_tokens", 7, "model='m-4'\nvalid_from=2026-06-01"),
    )
    numbers = [
        rule_set.number("minimum_tokens", "p", *query)
        for query in (
            ("other",),
            ("other", "bedrock"),
            ("m-5",),
            ("m-4x",),
            ("m-4x", "vertex"),
            ("m-4", "vertex"),
            ("m-4", "", day("2026-05-31")),
            ("m-4", "", day("2026-06-01")),
            ("other", "", day("2025-12-31")),
        )
    ]
    assert numbers == [1, 2, 3, 4, 5, 7, 6, 7, None]
    assert rule_set.find("minimum_tokens", "q", "m-4") is None


def test_unknown_value_is_found_without_a_number():
    rule_set = rules(("minimum_tokens", "'unknown'", ""))
    assert rule_set.find("minimum_tokens", "p", "m") is not None
    assert rule_set.number("minimum_tokens", "p", "m") is None


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1e300, 1e300])
def test_price_at_impossible_time_raises_nothing(at):
    price = packaged().price("deepseek", "deepseek-v4-pro", at=at)
    assert (price is None) == (at != 1e300)
    assert packaged().is_older_than(at) == (at > 0)


def test_invalid_time_does_not_affect_later_prices():
    rule_set = rules(("price_uncached", 1, ""), ("price_uncached", 2, "valid_from=2026-01-01"))
    for at in (float("nan"), float("-inf")):
        assert rule_set.price("p", "m", at=at) is None
    assert [rule_set.price("p", "m", at=day(at)).uncached for at in ("2025-12-31", "2026-01-01", "2025-12-31")] == [
        1,
        2,
        1,
    ]


def test_future_rows_do_not_hold_without_a_time():
    rows = read_rules(
        "[[rules]]\nrule='lifetime'\nprovider='p'\nrows=[{value=1},{value=2,valid_from=2027-01-01}]", "t"
    ).rows
    assert DatedRules(rows, date(2026, 10, 24)).number("lifetime", "p", "m") == 1
    assert DatedRules((), date(2026, 10, 24)).overridden_by(rows).number("lifetime", "p", "m") == 2
    assert packaged().price("gemini", "gemini-3.8-flash").uncached == Decimal("0.75")
    assert packaged().price("gemini", "gemini-3.8-flash", at=day("2027-01-01")) is None


def test_many_model_names_keep_memory_bounded():
    rule_set = rules(("minimum_tokens", 1, ""))
    for number in range(10_000):
        assert rule_set.number("minimum_tokens", "p", f"m{number}") == 1
        assert rule_set.price("p", f"m{number}") is None
    assert max(rule_set._matching.cache_info().currsize, len(rule_set._prices)) <= 4096


@pytest.mark.parametrize(("at", "read"), [("2026-10-06T23:59:59", "0.2"), ("2026-10-07T00:00:00", "0.1")])
def test_changed_price_holds_from_its_date(at, read):
    price = packaged().price("anthropic", "claude-sonnet-5-5", at=day(at))
    assert price.read == Decimal(read)
    assert price.uncached == Decimal(2)


@each("model, platform, tokens", [
    ("claude-opus-4-7", "", 2048),
    ("anthropic.claude-opus-4-7-v1:0", "bedrock", 4096),
    ("claude-opus-4-7@20260201", "vertex", 2048),
    ("claude-opus-4-5-20251101", "", 4096),
    ("claude-haiku-5-5", "", None),
    ("claude-opus-9", "", None),
    ("claude-opus-5-7", "", None),  # nothing begins with a known name by chance
    (None, "", None),
])  # fmt: skip
def test_minimum_depends_on_model_and_platform(model, platform, tokens):
    assert packaged().number("minimum_tokens", "anthropic", model, platform) == tokens


@pytest.mark.parametrize(
    ("provider", "model"),
    [("anthropic", "claude-opus-9"), ("anthropic", None), ("openai", "gpt-9"), ("xai", "grok-9"), ("", "x")],
)
def test_an_unknown_model_has_no_price(provider, model):
    assert packaged().price(provider, model, prompt_tokens=1) is None


@pytest.mark.parametrize(("model", "prompt", "uncached", "read", "output"), [
    ("claude-haiku-5-5", 100_000, "0.1", "0.01", "0.5"),
    ("claude-haiku-5-5", 100_001, "0.5", "0.05", "2.5"),
    ("claude-haiku-5-5", None, "0.1", "0.01", "0.5"),
    ("gemini-3.1-pro-preview", 200_000, "2", "0.2", "12"),
    ("gemini-3.1-pro-preview", 200_001, "4", "0.4", "18"),
])  # fmt: skip
def test_a_long_prompt_has_prices_of_its_own(model, prompt, uncached, read, output):
    price = packaged().price(model.split("-")[0].replace("claude", "anthropic"), model, prompt_tokens=prompt)
    assert (price.uncached, price.read, price.output) == tuple(map(Decimal, (uncached, read, output)))


def test_unknown_long_prompt_price_gives_none():
    rule_set = rules(("price_uncached", 2, ""), ("price_uncached", "'unknown'", "above_tokens=200000"))
    assert rule_set.price("p", "m", prompt_tokens=200_000).uncached == 2
    assert rule_set.price("p", "m", prompt_tokens=200_001) is None


def test_unknown_long_prompt_surcharge_gives_no_price():
    rule_set = rules(("price_uncached", 2, ""), ("multiple_input", "'unknown'", "above_tokens=10"))
    assert rule_set.price("p", "m", prompt_tokens=10).uncached == 2
    assert rule_set.price("p", "m", prompt_tokens=11) is None


@given(st.lists(st.sampled_from(["fast", "batch", "us"]), unique=True))
def test_extras_multiply_every_price(extras):
    factor = {"fast": Decimal(2), "batch": Decimal("0.5"), "us": Decimal("1.1")}
    plain = packaged().price("anthropic", "claude-opus-5")
    price = packaged().price("anthropic", "claude-opus-5", extras=extras)
    times = Decimal(1)
    for name in extras:
        times *= factor[name]
    assert (price.uncached, price.read) == (plain.uncached * times, plain.read * times)
    assert price.output == plain.output * times


def test_unknown_extra_makes_the_price_unknown():
    assert packaged().price("anthropic", "claude-opus-5", extras=["gold"]) is None


@pytest.mark.parametrize(("at", "uncached"), [
    ("2026-10-12T01:00:00", "1.32"),  # a Monday
    ("2026-10-12T04:00:00", "0.66"),
    ("2026-10-16T09:59:59", "1.32"),  # a Friday
    ("2026-10-17T02:00:00", "0.66"),  # a Saturday
    (None, "0.66"),
])  # fmt: skip
def test_deepseek_costs_twice_in_its_peak_hours(at, uncached):
    at = None if at is None else day(at)
    assert packaged().price("deepseek", "deepseek-v4-pro", at=at).uncached == Decimal(uncached)


def test_price_is_derived_from_a_multiple():
    price = packaged().price("moonshot", "kimi-k3")
    assert (price.write_5m, price.write_1h) == (3, 6)
    rule_set = rules(("price_uncached", 2, ""), ("multiple_read", "0.1", ""), ("price_write", "'unknown'", ""),
                 ("multiple_write", "1.25", ""))  # fmt: skip
    assert rule_set.price("p", "m").read == Decimal("0.2")
    assert rule_set.price("p", "m").write is None  # said to be unknown: not derived


def test_makers_prices_do_not_hold_at_gateways():
    assert packaged().price("anthropic", "claude-opus-5", "openrouter") is None
    user_rules = read_rules(
        "[[rules]]\nrule='price_uncached'\nprovider='anthropic'\nplatform='openrouter'\nvalue=6\n", "own.toml"
    )
    price = packaged().overridden_by(user_rules.rows).price("anthropic", "claude-opus-5", "openrouter")
    assert (price.uncached, price.read) == (6, None)


def test_users_row_overrides_packaged_rows():
    user_rules = read_rules(
        "[[rules]]\nprovider='anthropic'\nrows=["
        "{rule='price_read',model='claude-*',value=0.9},"
        "{rule='minimum_tokens',model='claude-opus-4-7',value=7,valid_from=2026-09-01}]",
        "own.toml",
    )
    rule_set = packaged().overridden_by(user_rules.rows)
    assert rule_set.price("anthropic", "claude-opus-5").read == Decimal("0.9")
    assert rule_set.price("anthropic", "claude-opus-5").uncached == 5
    assert rule_set.number("minimum_tokens", "anthropic", "claude-opus-4-7", "bedrock") == 7
    assert rule_set.number("minimum_tokens", "anthropic", "claude-opus-4-7", "bedrock", day("2026-08-31")) == 4096
    assert packaged().price("anthropic", "claude-opus-5").read == Decimal("0.5")


def test_tables_agree_with_the_lookback_of_checks():
    for rule in LOOKBACKS:
        at = max(rule.since, day("2024-09-01"))
        assert packaged().number("lookback", "anthropic", "claude-sonnet-4", at=at) == rule.positions
        assert packaged().find("lookback_runs", "anthropic", "claude-sonnet-4", at=at).value is rule.runs


@each(
    "hours, spans",
    [("1-4,6-10", ((1, 4), (6, 10))), ("0-24", ((0, 24),)), ("4-1", None), ("1-25", None), ("x", None), ("", None)],
)
def test_hours_are_read_or_refused(hours, spans):
    assert hour_spans(hours) == spans


@each("spelled, name", [
    ("claude-opus-4-8", "claude-opus-4-8"),
    ("anthropic.claude-opus-4-8-v1:0", "claude-opus-4-8"),
    ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
    ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-7-v1", "claude-opus-4-7"),
    ("claude-opus-4-8@20260401", "claude-opus-4-8"),
    ("claude-3-5-sonnet-v2@20241022", "claude-sonnet-3-5"),
    ("litellm_proxy/claude-3-5-sonnet-20241022", "claude-sonnet-3-5"),
    ("anthropic/claude-3.5-haiku", "claude-haiku-3-5"),
    ("claude-opus-5[1m]", "claude-opus-5"),
    ("claude-opus-4-6-thinking", "claude-opus-4-6"),
    ("claude-sonnet-4-20250514-thinking", "claude-sonnet-4"),
    ("claude-sonnet-4-0", "claude-sonnet-4"),
    ("anthropic/claude-4.0-opus", "claude-opus-4"),
    ("openrouter/anthropic/claude-sonnet-4.5:beta", "claude-sonnet-4-5"),
    ("anthropic:claude-sonnet-4-5", "claude-sonnet-4-5"),
    ("anthropic--claude-4.5-sonnet", "claude-sonnet-4-5"),
    ("databricks-claude-sonnet-4-5", "claude-sonnet-4-5"),
    ("Claude-Opus-5 ", "claude-opus-5"),
    ("gpt-4o-2024-08-06", "gpt-4o"),
    ("openai/gpt-5.6-sol", "gpt-5.6-sol"),
    ("deepseek-v4-flash", "deepseek-v4-flash"),  # its version is no platform's
    ("qwen.qwen3-coder", "qwen3-coder"),
    ("deepseek/deepseek-v4-pro:free", "deepseek-v4-pro:free"),  # another price: not the same name
    ("", ""),
    (None, ""),
    ("x" * (LONGEST + 1), ""),
])  # fmt: skip
def test_model_names_are_normalised(spelled, name):
    assert normal_name(spelled) == name
    assert normal_name(name) == name


@each("endpoint, model, dialect, expected", [
    ("api.anthropic.com/v1/messages", "claude-opus-5", "anthropic", ("anthropic", "")),
    ("", "us.anthropic.claude-opus-5-v1:0", "bedrock", ("anthropic", "bedrock")),
    ("bedrock-runtime.us-east-1.amazonaws.com", "anthropic.claude-opus-5-v1:0", "bedrock", ("anthropic", "bedrock")),
    ("us-east5-aiplatform.googleapis.com/v1", "claude-opus-5@default", "anthropic", ("anthropic", "vertex")),
    ("aiplatform.googleapis.com/v1", "gemini-3.1-pro", "gemini", ("gemini", "vertex")),
    ("x.openai.azure.com/openai/responses", "my-deployment", "openai-responses", ("openai", "azure")),
    ("openrouter.ai/api/v1", "moonshotai/kimi-k3", "openai-chat", ("moonshot", "openrouter")),
    ("", "litellm_proxy/claude-3-5-sonnet-20241022", "openai-chat", ("anthropic", "")),
    ("", "bedrock/anthropic.claude-sonnet-4-6", "openai-chat", ("anthropic", "bedrock")),
    ("", "vertex_ai/claude-sonnet-4-6", "openai-chat", ("anthropic", "vertex")),
    ("", "google/gemini-3.1-pro", "openai-chat", ("gemini", "")),
    ("localhost:8000/v1", "claude-opus-5", "anthropic", ("", "")),
    ("localhost:4000/v1", "bedrock/claude-opus-5", "anthropic", ("anthropic", "bedrock")),  # a LiteLLM proxy
    ("localhost:4000/v1", "us.anthropic.claude-sonnet-4-6-v1:0", "anthropic", ("anthropic", "bedrock")),
    ("localhost:8000/v1", "openai/gpt-oss-120b", "openai-chat", ("", "")),
    ("", None, "anthropic", ("", "")),
])  # fmt: skip
def test_maker_is_provider_and_cloud_is_platform(endpoint, model, dialect, expected):
    assert served(endpoint, model, dialect) == expected


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "lmcache"])
@each("endpoint", ["/v1/chat/completions", "gpu.example.com/v1/messages", "api.openai.com/v1/x"])
def test_answering_engine_serves_any_model(engine, endpoint):
    assert served(endpoint, "gpt-4o", "openai-chat", engine) == (engine, "")


ROW = "[[rules]]\nrule='price_read'\nprovider='anthropic'\nvalue=0.5\n"


def test_row_with_required_keys_gets_defaults():
    (row,) = read_rules(ROW, "mine.toml").rows
    assert (row.rule, row.provider, row.value) == ("price_read", "anthropic", Decimal("0.5"))
    assert (row.model, row.platform, row.valid_from, row.unit) == ("*", "", ALWAYS, "usd_per_mtok")
    assert (row.source, row.evidence, row.file, row.above_tokens) == ("mine.toml", "?", "mine.toml", None)


def test_rows_of_a_block_share_its_keys():
    text = (
        "as_of=2026-10-24\n[[rules]]\nprovider='qwen'\nevidence='P'\nrows=[\n"
        "  {rule='lifetime', value=300},\n  {rule='max_breakpoints', value=4, evidence='S'},\n]\n"
    )
    table = read_rules(text, "t.toml")
    assert table.as_of == date(2026, 10, 24)
    assert [(row.rule, row.evidence) for row in table.rows] == [("lifetime", "P"), ("max_breakpoints", "S")]


@pytest.mark.parametrize(
    ("written", "pattern"),
    [("anthropic.claude-opus-4-8-v1:0", "claude-opus-4-8"), ("Claude-3-5-Haiku-20241022", "claude-haiku-3-5"),
     ("claude-opus-*", "claude-opus-*"), ("gpt-5.[6-9]*", "gpt-5.[6-9]*")],
)  # fmt: skip
def test_model_of_a_row_is_normalised(written, pattern):
    (row,) = read_rules(ROW + f"model='{written}'\n", "t.toml").rows
    assert row.model == pattern


@each("text, message, hint", [
    ("[[rules\n", "t.toml is not TOML", "quote"),
    ("rule=1\n", "t.toml: unknown key 'rule'", "did you mean 'rules'?"),
    ("zzz=1\n", "unknown key 'zzz'", "known keys: as_of, rules"),
    ("as_of='2026-10-24'\n", "as_of is not a date", "without quotes"),
    ("rules=3\n", "rules is not a list of tables", "[[rules]]"),
    ("[[rules]]\nrows={}\n", "rules 1: rows is not a list of tables", "rows = ["),
    (ROW + "modell='x'\n", "rules 1: unknown key 'modell'", "did you mean 'model'?"),
    (ROW + ROW.replace("value=0.5", "value=-1"), "rules 2: the value does not fit price_read", "0 or more"),
    ("[[rules]]\nrows=[{}, {rule='lifetime'}]\n", "rules 1, row 1: provider is missing", ""),
    ("[[rules]]\nrule='lifetime'\nvalue=1\n", "provider is missing", ""),
    (ROW + "note=3\n", "rules 1: note: expected `str`, got `int`", ""),
    (ROW.replace("price_read", "price_red"), "unknown rule 'price_red'", "did you mean 'price_read'?"),
    (ROW.replace("0.5", "'much'"), "does not fit price_read", "a number"),
    (ROW.replace("0.5", "1e99999"), "does not fit price_read", "a number"),
    (ROW.replace("price_read", "max_breakpoints"), "does not fit max_breakpoints", "a whole number"),
    (ROW.replace("price_read", "lookback_runs"), "does not fit lookback_runs", "true or false"),
    (ROW.replace("price_read", "order"), "does not fit order", "tools,system,messages"),
    (ROW.replace("price_read", "peak_hours").replace("0.5", "'4-1'"), "does not fit peak_hours", "1-4,6-10"),
    (ROW + "unit='eur'\n", "unit 'eur' is not known", "usd_per_mtok"),
    (ROW + "model='claude-['\n", "model 'claude-[' is not a pattern", "gpt-5*"),
    (ROW + "platform='bedrok'\n", "platform 'bedrok' is not known", "did you mean 'bedrock'?"),
    (ROW + "evidence='Q'\n", "rules 1: evidence: invalid enum value 'Q'", ""),
    (ROW + "valid_from='soon'\n", "rules 1: valid_from: invalid", ""),
    (ROW + "above_tokens=0\n", "above_tokens: expected `int` >= 1", ""),
    (ROW + ROW, "rules 2: the same row as rules 1", "another date"),
    (ROW + "model='claude-opus-5'\n" + ROW + "model='claude-opus-5-20260724'\n", "the same row as rules 1", ""),
    ("[[rules]]\n" + "a." * 3000 + "b=1\n", "t.toml: rules 1: unknown key 'a'", ""),
    ("rules=" + "[" * 5000, "t.toml", ""),
])  # fmt: skip
def test_mistake_is_one_sentence_with_its_place(text, message, hint):
    with pytest.raises(LoreError) as caught:
        read_rules(text, "t.toml")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    assert caught.value.where is not None
    assert caught.value.where.file == "t.toml"


@given(st.text(max_size=60), st.sampled_from(["", ROW, ROW + "note="]))
def test_any_text_gives_rows_or_one_error(text, head):
    try:
        read_rules(text, "t.toml")
    except LoreError as error:
        assert "\n" not in error.message  # noqa: PT017 - most texts are rows


@given(st.sampled_from(sorted(RULES)), st.one_of(st.integers(), st.booleans(), st.sampled_from(["unknown", "lru", ""])))
def test_value_has_the_kind_of_its_rule(rule, value):
    written = str(value).lower() if isinstance(value, bool) else repr(value)
    try:
        (row,) = read_rules(f"[[rules]]\nrule='{rule}'\nprovider='p'\nvalue={written}\n", "t.toml").rows
    except LoreError as error:
        assert rule in error.message  # noqa: PT017 - most values are refused
    else:
        kinds = {"number": Decimal, "whole": Decimal, "flag": bool, "text": str}
        assert row.value is None or isinstance(row.value, kinds[RULES[rule][0]])
