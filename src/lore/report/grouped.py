"""Falls of billed reads that nothing explains, once a file: a noisy cache falls again and again for one reason.

In: findings in the order in which they are shown. Out: the same, those of one code about one file as one that counts
them, at the place of the first. Rules: only codes that name no cause are put together, for each of the others wants a
look of its own; one alone stays as it is; tokens and dollars are sums; the worst turns are named. For people: machine
formats list each, as -v does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from lore.model.codes import UNEXPLAINED, Code
from lore.model.evidence import NothingRead
from lore.model.results import Finding
from lore.report.plain import counted

WORST = 3  # turns that are named


def once_a_file(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, unexplained falls of one file as one."""
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        alike = finding.code in UNEXPLAINED and finding.turn is not None
        groups.setdefault((finding.path, finding.code, finding.severity) if alike else number, []).append(finding)
    return [found[0] if len(found) == 1 else _together(found) for found in groups.values()]


def _together(found: Sequence[Finding]) -> Finding:
    """Return one finding about several turns of a file; it has no turn and no line of its own."""
    tokens = sum(finding.lost_tokens or 0 for finding in found)
    paid = [finding.lost_dollars for finding in found if finding.lost_dollars is not None]
    return replace(
        found[0], message=_message(found), lost_tokens=tokens, lost_dollars=sum(paid) if paid else None, line=None,
        chain=None, turn=None, lost_bytes=None, times=len(found),
    )  # fmt: skip


def _message(found: Sequence[Finding]) -> str:
    gone_on = " though the conversation went on" if found[0].code == Code.SERVER_SIDE_MISS else ""
    never = sum(isinstance(finding.evidence, NothingRead) for finding in found)  # of these no tokens are known
    fell = len(found) - never
    parts = [f"the billed read fell in {counted(fell, 'turn')}{gone_on}"] if fell else []
    parts += [f"nothing was read in {counted(never, 'turn')} that went on from prompts never read"] if never else []
    parts += [f"{'most' if fell else 'first'} in {_worst(found)}"]
    for word, wanted in (("ruled out in each", True), ("not recorded", None)):
        named = [{reason.reason.partition(":")[0] for reason in finding.ruled_out if reason.out is wanted}
                 for finding in found]  # fmt: skip
        order = [reason.reason.partition(":")[0] for reason in found[0].ruled_out]
        common = [reason for reason in dict.fromkeys(order) if all(reason in names for names in named)]
        parts += [f"{word}: {', '.join(common)}"] if common else []
    return "; ".join([*parts, "each turn: -v"])


def _worst(found: Sequence[Finding]) -> str:
    """Name the turns that lost most."""
    worst = sorted(found, key=lambda finding: -(finding.lost_tokens or 0))[:WORST]
    return ", ".join([
        f"turn {finding.turn}" + ("" if finding.chain in (None, "main") else f" of {finding.chain}")
        + ("" if finding.line is None else f" (line {finding.line})")
        + (f": {finding.lost_tokens:,} tokens" if finding.lost_tokens else "")
        for finding in worst
    ])  # fmt: skip
