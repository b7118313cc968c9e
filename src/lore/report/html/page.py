"""Render a page: rows to HTML, with the one template `page.html`.

Every text passes `visible` (no control characters, no direction marks, no credentials) and is escaped. The policy in
the page allows its own style and script by their digests, and no request.

Source: Content Security Policy Level 3 (W3C): digests of inline content, delivery in `meta` (2026).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

import lore
from lore.model.codes import kind_in_words
from lore.model.fact import format_money
from lore.model.results.page import PageSession
from lore.report.commands import shorten_path
from lore.report.forms.registry import TextReport
from lore.report.forms.terminal import Reported
from lore.report.html import answers, blocks, timeline
from lore.report.overview import cost_of, rebilled_of, share_read, tokens_of
from lore.report.plain import counted, format_count, last_part, visible, when
from lore.report.sentences.findings import format_fix, format_loss, format_usage
from lore.report.sentences.spending import short_of

GENERATOR = f"lore {lore.__version__}"


class PageContent(NamedTuple):
    """The values of the template."""

    title: str
    intro: blocks.Intro | None = None
    listed: Sequence[PageSession] = ()
    places: Mapping[str, str] = {}  # path of a listed session -> the address of its details
    views: Sequence[timeline.SessionView] = ()
    left_out: int = 0  # listed sessions that have no details
    back: str = ""  # the address of the page that lists all sessions


def render_page(page: PageContent) -> str:
    """Return a page as HTML."""
    return _template().render(page=page)


def policy_digest(text: str) -> str:
    """Return what allows a text in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("lore.report", "html"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_make_visible,
    )  # fmt: skip
    functions = (
        answers.causes_block, answers.describe_spending, answers.money_block, blocks.key_of,
        cost_of, counted, kind_in_words, rebilled_of, timeline.shared_beginning, share_read, short_of,
        timeline.kind_of, timeline.list_marks, when,
    )  # fmt: skip
    filters: dict[str, Any] = {function.__name__: function for function in functions} | {
        "count": format_count, "digest": policy_digest, "fix": format_fix,
        "loss": format_loss, "money": format_money, "name": last_part, "path": shorten_path,
        "tokens": tokens_of, "usage": format_usage,
    }  # fmt: skip
    environment.filters.update(filters)
    return environment.get_template("page.html", globals={"generator": GENERATOR, "KINDS": timeline.KINDS})


def _make_visible(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _page(result: Reported, verbose: bool) -> list[str]:  # noqa: FBT001 - of `TextReport`
    intro = answers.introduce_report(result, verbose=verbose)
    return [render_page(PageContent(intro.title, intro)).removesuffix("\n")]


HTML = TextReport(_page)  # of findings alone; `lore check` and `lore lint` write it with the pages of its sessions
