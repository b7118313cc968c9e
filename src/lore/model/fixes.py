"""Fixes that fit better than a code's own: where that is done already, or would be too general.

In: nothing. Out: tables of one imperative sentence each.
"""

from __future__ import annotations

from lore.model.codes import Code

# What is left to do where a recording does already what the code's fix recommends.
DONE: dict[str, str] = {
    Code.CACHE_EXPIRED: "Begin anew after so long a pause, or compact before it: no longer lifetime can be asked for.",
    Code.ROUTED_ELSEWHERE: "Report it to the router: the request names its provider, and allows no other one.",
    Code.CLIENT_CAUSE_UNKNOWN: "Record behind the last gateway, or report the request ids to the provider: these "
    "bodies do not show it.",
    Code.VERDICT_DISAGREES: "Believe the bill for what was paid; record behind the last gateway, or report the request "
    "ids to the provider.",
}

# The fix where the code's own would be too general: by code, and the reason or setting that the evidence names.
FIXES: dict[tuple[str, str], str] = {
    (Code.BREAKPOINT_NOT_TAKEN, "message"): "Set it on the message's last content block instead of the message.",
    (Code.BREAKPOINT_NOT_TAKEN, "deferred-tool"): "Set it on the last tool that is not deferred.",
    (Code.BREAKPOINT_NOT_TAKEN, "not-input"): "Set it on an input part of a user's or system message.",
    (Code.BREAKPOINT_NOT_TAKEN, "lifetime"): 'Ask for "5m" or "1h", or leave the lifetime out.',
    (Code.BREAKPOINT_NOT_TAKEN, "automatic-cache"): "Leave it out: this cache takes what repeats by itself.",
    (Code.PROMPT_UNDER_MINIMUM, "unmarked"): (
        "Put more of what stays the same at the beginning, or leave it: so short a prompt costs little."
    ),
    (Code.CACHE_SETTING, "key-too-long"): "Shorten the key, to a hash of it for one.",
    (Code.CACHE_SETTING, "retention-shorter"): "Leave prompt_cache_retention out, or ask for 24h.",
    (Code.CACHE_SETTING, "retention-replaced"): "Use prompt_cache_options instead, or leave it out.",
    (Code.CACHE_SETTING, "reasoning-not-returned"): (
        'Ask for include: ["reasoning.encrypted_content"] and send reasoning items back, or store responses.'
    ),
    (Code.CACHE_SETTING, "truncation"): "Compact before the window is full, and leave truncation out.",
    (Code.CACHE_SETTING, "cached-content-beside"): (
        "Put system instruction, tools and tool config into the cached content, and leave them out of the request."
    ),
    (Code.VARYING_TEXT_IN_PREFIX, "date"): "Freeze the date when the session starts, or put it behind the history.",
    (Code.VARYING_TEXT_IN_PREFIX, "clock"): "Leave the time out, or put it behind the history.",
    (Code.VARYING_TEXT_IN_PREFIX, "directory"): "Put paths behind what all projects share, or behind the history.",
    (Code.VARYING_TEXT_IN_PREFIX, "repository"): (
        "Take the state of the repository once a session, and tell changes behind the history."
    ),
}
