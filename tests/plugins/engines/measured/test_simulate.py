"""`lore simulate` with caches of engines and their options."""

from cli.running import lore
from cli.test_simulate import body, capture, reads, stable, usage


def test_billing_header_matters_for_llama_cpp_only():
    """An agent's billing header changes with every request; Anthropic removes it, an engine reads it first."""
    turns = []
    for number, texts in enumerate((("one",), ("one", "1", "two"))):
        request = body(*texts)
        header = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.{number}"}
        turns.append(({**request, "system": [header, *request["system"]]}, usage(5000 * number, 5000), 60 * number))
    path = capture(*turns)
    assert reads(lore("simulate", path, "--json"))[1] == 5000
    assert reads(lore("simulate", path, "--cache", "llama.cpp", "--json"))[1] in range(100)


def test_comma_joins_cache_options():
    """`groups=5` alone is an error: it needs a window."""
    path = stable()
    change = "window=17,groups=5,capacity=0"
    ran = lore("simulate", path, "--cache", "vllm", "--what-if", change, "--json").json
    assert [saving["change"] for saving in ran["what_if"]] == [change]
    assert ran["what_if"][0]["tokens"] < 0, "a memory without a place holds nothing"
    for wrong in ("window=17,groups", "window=17,", "groups=5", "window=17,nothing=1"):
        refused = lore("simulate", path, "--cache", "vllm", "--what-if", wrong)
        assert (refused.code, refused.err[:7]) == (2, "error: ")
