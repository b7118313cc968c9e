"""Codes of prediction against bill, LORE3xx, and of budgets and baselines, LORE4xx.

A row: name, kind, what the author of the agent does, what its user does, who can act.
"""

from __future__ import annotations

from lore.model.about import About, Code

BILLS: dict[str, About] = {
    Code.BILLED_READ_FELL: About("billed-read-fell", "unattributable",
        "Record request bodies, and compare sessions of the same time: nothing that was looked at explains it.",
        "Compare sessions of the same time; if all of them fell, report it to the provider.",
        "provider"),
    Code.VERDICT_DISAGREES: About("verdict-disagrees", "unattributable",
        "Compare the three columns, and record the request whole on the wire.",
        "Believe the bill for what was paid, and record on the wire to learn more.",
        "author"),
    Code.BILL_CONTRADICTS_BODY: About("bill-contradicts-body", "unattributable",
        "Record the body that the provider got, uncut, and the bill of that same request.",
        "Record behind the last gateway, uncut, so that bill and body belong together.",
        "author"),
    Code.READ_SHORT_OF_PREDICTION: About("read-short-of-prediction", "unattributable",
        "Compare with other sessions of that time, and keep one host, key and cache key for requests that begin alike.",
        "Compare other sessions of the same time; if all of them fell, report it to the provider.",
        "provider"),
    Code.WRITES_NEVER_READ: About("writes-never-read", "unattributable",
        "Leave cache breakpoints out, or set them where the next turn will read.",
        "Look whether the gateway or key has a cache at all, and report it to the agent's author.",
        "author"),
    Code.PROMPT_UNDER_MINIMUM: About("prompt-under-minimum", "unattributable",
        "Leave the cache breakpoints out, or put more of what stays the same before them.",
        "Nothing to do: short prompts are not cached, whatever is set.",
        "author"),
    Code.REUSE_BELOW_BUDGET: About("reuse-below-budget", "waste",
        "Mend the cache breaks named above, or lower check.min_reuse.",
        "Mend the cache breaks named above, or lower check.min_reuse.",
        "author"),
    Code.BREAKS_ABOVE_BUDGET: About("breaks-above-budget", "waste",
        "Mend the cache breaks named above, or raise check.max_breaks.",
        "Mend the cache breaks named above, or raise check.max_breaks.",
        "author"),
    Code.LOST_TOKENS_ABOVE_BUDGET: About("lost-tokens-above-budget", "waste",
        "Mend the cache breaks named above, or raise check.max_lost_tokens.",
        "Mend the cache breaks named above, or raise check.max_lost_tokens.",
        "author"),
    Code.EXEMPTION_UNUSED: About("exemption-unused", "waste",
        "Remove the exemption: what it excused is mended.",
        "Remove the exemption: what it excused is mended.",
        "author"),
    Code.BASELINE_STALE: About("baseline-stale", "expected",
        "Write the baseline anew with --update-baseline: it is shorter now.",
        "Write the baseline anew with --update-baseline: it is shorter now.",
        "nobody"),
}  # fmt: skip
