"""Costs that logs state themselves, compared with lore's own prices."""

import pytest

from cli.running import lore, put
from formats.copilot import plain
from formats.pi import Pages

ALL = ("--since", "2020-01-01")


def pi_log():
    """Write requests of gpt-5.6-sol, whose cache writes pi does not log, at $0.10 each; one without tokens."""
    gpt = {"api": "openai-codex-responses", "model": "gpt-5.6-sol"}
    log = Pages()
    log.number = 20_000_000  # a time at which the model has a price
    log.user("look").answer("a", bill=(10_000, 0, 0, 100), **gpt)
    log.user("more").answer("b", bill=(1_000, 10_000, 0, 100), **gpt)
    log.user("stop").answer("", bill=(0, 0, 0, 0), stopReason="aborted", **gpt)
    return put("home/.pi/agent/sessions/--w--/2026-04-08T08-00-00-000Z_s-1.jsonl", log.data())


def copilot_log():
    """Two requests, of 59 that the client counts."""
    log = plain().line("session.usage_checkpoint", {"totalNanoAiu": 500_000_000_000, "totalPremiumRequests": 1})
    log.shutdown(claude_sonnet_5=(59, 900_000, 800_000, 0, 9_000))
    log.lines[-1]["data"] |= {"totalNanoAiu": 1_565_000_000_000, "totalPremiumRequests": 3}
    return put("home/.copilot/session-state/s-1/events.jsonl", log.data())


def test_overview_shows_cost_as_recorded_by_agent():
    pi_log(), copilot_log()
    output = " ".join(lore(*ALL).out.split())
    assert "recorded by pi itself: $0.20 for 2 requests (at lore's prices at least $0.05)" in output
    assert "recorded by GitHub Copilot CLI itself: $15.65 for 59 requests, 3 premium requests" in output


def test_overview_prices_missing_writes_as_lower_bound():
    pi_log()
    total = lore(*ALL, "--json").json["total"]
    assert (total["requests"], total["at_least"], total["unpriced"], total["unbilled"]) == (3, 2, 0, 1)
    assert total["dollars"] == pytest.approx((11_000 * 4 + 10_000 * 0.4 + 200 * 24) / 1e6, abs=0.01)
    assert "at least $0.0" in lore(*ALL).out


def test_overview_counts_requests_of_a_sum_as_recorded():
    copilot_log()
    total = lore(*ALL, "--json").json["total"]
    assert (total["requests"], total["unbilled"], total["unpriced"], total["recorded_dollars"]) == (2, 0, 0, 15.65)
    put("home/.copilot/session-state/s-1/events.jsonl", plain().data())  # output alone
    assert "not recorded         2         -            -        -      17" in lore(*ALL).out


def test_rebilled_is_unknown_if_few_record_usage():
    put("home/.copilot/session-state/s-1/events.jsonl", plain().data()), pi_log()
    assert "re-billed: unknown (3 of 5 requests record no cache usage)\n" in lore(*ALL).out
    output = lore("check", "home/.copilot/session-state").out
    assert "recorded for 0 of 2 requests: only the text was compared\nre-billed as waste: unknown" in output


def test_sessions_shows_recorded_cost_that_differs():
    copilot_log()
    assert lore("sessions", "--json").json["sessions"][0]["recorded_dollars"] == 15.65
    assert "recorded by the agent itself: $15.65" in lore("sessions").out


def test_check_and_simulate_show_recorded_cost():
    path = pi_log()
    assert "cost as recorded: $0.20" in lore("check", "-v", path).out
    assert "cost as recorded" not in lore("check", path).out
    assert lore("check", "--json", path).json["summary"]["recorded_dollars"] == 0.2
    assert "cost: at least $0.0" in lore("simulate", path).out
    cost = lore("simulate", "--json", path).json["totals"]["cost"]
    assert (cost["recorded"], cost["at_least"]) == (0.2, True)


def test_check_counts_recorded_cost_of_copies_once(tmp_path):
    first, second = put("a/1.jsonl", pi_bytes()), put("a/2.jsonl", pi_bytes())
    assert lore("check", "--json", first, second).json["summary"]["recorded_dollars"] == 0.1


def pi_bytes():
    return Pages().user("look").answer("a").data()
