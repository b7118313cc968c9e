"""The terminal report of `lore lint`: how much of a request a cache would keep, its saving, and its faults with fixes.

Up to `FEW` requests are shown one by one, with all findings; of more only the sums, and notes with -v. The message of a
finding has its cost: the tokens that are re-billed in each request with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from lore.cache.served import Served
from lore.judge.requests.lint import is_refused
from lore.model.codes import Code
from lore.model.differences import BreakpointNotTaken, BreakpointsApart, BreakpointsMissing
from lore.model.fact import count_of, format_duration, format_money
from lore.model.results import Finding
from lore.model.results.lint import LintRequest, LintResult
from lore.report.console import Console, line
from lore.report.forms.terminal import Reported, sums_lines, write_groups
from lore.report.plain import place_of
from lore.report.redacted import redacted_finding
from lore.report.status_line import percent

FEW = 3  # requests that are shown one by one
_SERVERS = {  # platforms and providers
    "azure": "Azure", "bedrock": "Bedrock", "vertex": "Google Cloud", "anthropic": "Anthropic's API",
    "gemini": "Gemini's API", "openai": "OpenAI's API", "qwen": "Model Studio",
}  # fmt: skip
_WHERE_VARIED = "each time it changes, about {tokens} tokens are re-billed{dollars}"
_STAKES: dict[str, str] = {
    Code.VOLATILE_BEFORE_HISTORY: _WHERE_VARIED,
    Code.BREAKPOINT_ON_VOLATILE: _WHERE_VARIED,
    Code.VARYING_TEXT_IN_PREFIX: _WHERE_VARIED,
    Code.TOOLS_UNSORTED: "where their order changes, about {tokens} tokens are re-billed{dollars}",
    Code.BREAKPOINTS_MISSING: "each request pays about {tokens} tokens in full that it could read{dollars}",
    Code.IMAGE_BEFORE_TEXT: "with another image that text is re-billed{dollars}",
}


def worded_lint(finding: Finding, where: Served, *, redact: bool = False) -> Finding:
    """Return a finding whose message has its cost at the server of the request (`where`); `redact`: without content."""
    safe_finding = redacted_finding(finding) if redact else finding
    stake = _describe_stake(safe_finding, where)
    return replace(safe_finding, message="; ".join(filter(None, (safe_finding.message, stake))))


def _describe_stake(finding: Finding, where: Served) -> str:
    """Return what each request loses by a fault; empty if that is not known."""
    code, evidence = finding.code, finding.evidence
    if is_refused(finding):
        who = _SERVERS.get(where.platform) or _SERVERS.get(where.provider)
        return f"{who} answers such a request with an error" if who else "it is refused, or counts for nothing"
    if code == Code.PROMPT_UNDER_MINIMUM:
        return "each request is paid in full"
    if code == Code.CACHE_KEY_MISSING:
        return "one that comes to another machine reads nothing"
    if isinstance(evidence, BreakpointNotTaken):
        return "it does no harm" if evidence.reason == "automatic-cache" else "nothing is cached there"
    tokens, dollars = finding.stake_tokens, finding.stake_dollars
    if not isinstance(tokens, int) or not tokens:
        return ""
    cost = f" ({format_money(dollars)} more than reading them)" if isinstance(dollars, float) and dollars else ""
    if isinstance(evidence, BreakpointsApart):
        when = "in such a step" if evidence.step else "if the request before ended further back"
        return f"{when} about {tokens:,} tokens are re-billed{cost}"
    template = _STAKES.get(code, "")
    if isinstance(evidence, BreakpointsMissing) and evidence.behind is None:
        template = "nothing is cached: " + template
    return template.format(tokens=f"{tokens:,}", dollars=cost)


class LintTerminal:
    """The report for a terminal."""

    can_share_stdout = True

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet  # findings only, without notes

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        """Write what a cache would keep of each request, findings, sums."""
        assert isinstance(result, LintResult)  # `lore check` has one of its own
        one_by_one = len(result.requests) <= FEW and not self._quiet
        files = Counter(request.path for request in result.requests)
        requests = result.requests if one_by_one or verbose else []
        for request in requests:
            is_only_turn = files[request.path] == 1 and request.turn == 1
            turn = "" if is_only_turn else f"  turn {request.turn} of {request.chain}"
            facts = f"  {request.dialect}, {request.model or 'no model named'}"
            out.print(line((f"{place_of(request.path, request.line)}{turn}", "bold"), facts))
            style, answer = _describe_caching(request)
            out.print(line("    ", (answer, style)))
            for sentence in _describe_costs(request):
                out.print(f"    {sentence}")
        findings = [entry for entry in result.findings if one_by_one or verbose or entry.severity != "note"]
        groups = list[list[Finding]]()
        for finding in findings:
            request_count = finding.requests if isinstance(finding.requests, int) else 0
            suffix = f" ({count_of(request_count, 'request')})" if request_count > 1 else ""
            groups.append([replace(finding, message=f"{finding.message}{suffix}")])
        write_groups(groups, out, verbose=verbose)
        if self._quiet:
            return
        if requests or findings:
            out.print()
        for sentence in sums_lines(result.summary):
            out.print(sentence)
        if len(findings) < len(result.findings):
            hidden = count_of(len(result.findings) - len(findings), "note")
            out.hint(f"{hidden} hidden, and the requests one by one", "-v shows them")


def _describe_caching(request: LintRequest) -> tuple[str, str]:
    """Return a style, and whether a cache would keep the request."""
    size = f"about {request.tokens:,} tokens"
    if request.cache is None:
        hint = ": name its cache with --cache" if request.model else ": give its name with --model"
        return "bold yellow", f"not known: no cache rules for this model at this endpoint{hint} ({size})"
    if request.cached_tokens is None:
        reason = "the recording does not hold all of the request"
        if request.cache == "gemini-explicit":
            reason = "what the cached content holds is not in the body"
        elif not request.tokens:
            reason = "the request holds nothing"
        return "bold yellow", f"not known: {reason} ({size})"
    if not request.cached_tokens:
        minimum = request.minimum_tokens
        name = request.model or request.cache
        reason = "" if minimum is None else f"; {name} caches nothing shorter than {minimum:,}"
        if minimum is not None and request.tokens >= minimum and not request.automatic:
            reason = (
                "; its last cache breakpoint is too early" if request.breakpoints else "; it has no cache breakpoint"
            )
        if minimum is None and request.cache in ("gemini", "openai"):
            only = "caches only content that a request names (cachedContent)"
            reason = f"; {name} {only if request.cache == 'gemini' else 'has no prompt cache'}"
        return "bold red", f"nothing would be cached: {size}{reason}"
    share = min(1.0, request.cached_tokens / max(1, request.tokens))
    extent = f", up to {request.cached_to}" if request.cached_to else ""
    verb = "would be cached" if request.sure else "may be cached"
    answer = f"about {request.cached_tokens:,} of {request.tokens:,} tokens {verb} ({percent(share)}){extent}"
    return ("bold red", f"refused as it is; once fixed, {answer}") if request.refused else ("bold green", answer)


def _describe_costs(request: LintRequest) -> Iterator[str]:
    """Yield the breakpoints of a request, how long a cache would keep it, and what its prompt costs."""
    marks = [f"{mark.path} ({mark.tokens:,} tokens, {_format_lifetime(mark.lifetime)})" for mark in request.breakpoints]
    marks += ["automatic"] * request.automatic
    if marks:
        yield f"breakpoints: {', '.join(marks)}"
    if request.cached_tokens:
        minimum = request.minimum_tokens
        if not request.sure and minimum is not None and request.cached_tokens < 2 * minimum:
            yield f"near the fewest that are cached ({minimum:,}): an estimate from bytes cannot tell"
        elif not request.sure:
            yield "pictures, files or the provider's own tools are in it: their tokens are not in these sizes"
        caveat = "; this is the best case: the cache gives no guarantee" if request.confidence == "ceiling" else ""
        yield f"it would be kept for {_format_lifetime(request.lifetime)} after the last request that reads it{caveat}"
        first, second, uncached = request.first_dollars, request.second_dollars, request.uncached_dollars
        if first is None or second is None or not uncached:
            yield "no price is known for it"
            return
        repeat = f"{format_money(second)} instead of {format_money(uncached)} ({percent(1 - second / uncached)} less)"
        first_cost = f"{format_money(first)} ({100 * (first / uncached - 1):+.0f} %)"
        yield f"sent again, its prompt costs {repeat}; the first time {first_cost}"
    elif request.uncached_dollars:
        yield f"each request costs {format_money(request.uncached_dollars)} for its prompt"


def _format_lifetime(lifetime: float | None) -> str:
    return "an unknown time" if lifetime is None else format_duration(lifetime)
