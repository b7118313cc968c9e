"""Markup: values to a page, which holds all that it shows, or all but the style that the pages of a folder share.

In: blocks and sessions. Out: HTML. Rules: every text passes `visible` (no control characters, no direction marks, no
credentials) and is escaped; the style and the scripts of a page are allowed by their digests, the style of a folder by
its origin, nothing else is, and no request may leave (`default-src 'none'`).

Source: Content Security Policy Level 3 (W3C), digests of inline content; `meta` delivery (2026). Where a page is
opened as a file, `'self'` is any file: so take it Chromium 156 and Firefox 153 (tried in November 2026).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from string import ascii_letters
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import lore
from lore.report.html.blocks import PageBlock
from lore.report.html.session import SessionView
from lore.report.plain import visible

STYLE = "lore.css"  # the name of the style that the pages of a folder share
_LONG = "data-turns="  # of a series that can be zoomed into
GENERATOR = f"lore {lore.__version__}"
_SPACE = re.compile(r"\n\s*")
_COMMENT = re.compile(r"^\s*//.*\n", re.MULTILINE)


class Assets(NamedTuple):
    """The style and the scripts as they stand in a page, and the policy that allows them and nothing else.

    `style` is empty where the page loads it.
    """

    style: Markup
    scripts: tuple[Markup, ...]
    policy: str


@cache
def assets(*, sorts: bool, zooms: bool, loads: bool = False) -> Assets:
    """Return what a page holds that sorts tables, or zooms into long series, without what only authors need.

    `loads`: its style stands in a file beside it.
    """
    names = ["open.js", *(["sort.js"] if sorts else []), *(["zoom.js"] if zooms else [])]
    scripts = [_SPACE.sub("\n", _COMMENT.sub("", template(name))).strip() for name in names]
    style = "" if loads else style_sheet()
    allowed = digest(style) if style else "'self'"
    policy = "; ".join((
        "default-src 'none'", f"style-src {allowed}", f"script-src {' '.join(map(digest, scripts))}",
        "base-uri 'none'", "form-action 'none'",
    ))  # fmt: skip
    return Assets(Markup(style), tuple(map(Markup, scripts)), policy)  # noqa: S704 - files of this package


@cache
def style_sheet() -> str:
    """Return the style of every page, for a page or for a file beside pages."""
    return _shortened(_SPACE.sub("", template("style.css")))


def template(name: str) -> str:
    """Return the text of a file beside the templates."""
    return resources.files("lore.report.html").joinpath("templates", name).read_text("utf-8")


def _shortened(style: str) -> str:
    """Return a style whose variables have names of one letter: it stands in every page of a folder."""
    names = dict(zip(dict.fromkeys(re.findall(r"--[a-z]+", style)), ascii_letters, strict=False))
    return re.sub(r"--[a-z]+", lambda found: f"--{names[found[0]]}", style)


def digest(text: str) -> str:
    """Return the source expression of a content policy that allows a text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def environment() -> Environment:
    """Return the environment of every page: it escapes, and makes visible what would be obeyed."""
    return Environment(
        loader=PackageLoader("lore.report.html"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_finalized,
    )  # fmt: skip


def _finalized(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def session_body(view: SessionView, *, folded: str = "", trials: bool = False) -> Markup:
    """Return the markup of a session; it is `folded` under this name where a page has several."""
    return _rendered("session.html", view=view, folded=folded, trials=trials)


def page(
    title: str, *, heading: str = "", lead: str = "", blocks: Sequence[PageBlock] = (), bodies: Sequence[Markup] = (),
    closing: Sequence[PageBlock] = (), back: str = "", style: str = "",
) -> str:  # fmt: skip
    """Return a whole page; `closing` stands behind the bodies.

    `back` is the address of the page that leads here, `style` that of a style sheet to load.
    """
    sorts = any(block.table is not None and block.table.sortable for block in blocks)
    made = assets(sorts=sorts, zooms=any(_LONG in body for body in bodies), loads=bool(style))
    return str(_rendered(
        "page.html", title=title, heading=heading, lead=lead, blocks=blocks, bodies=bodies,
        closing=closing, back=back,
        generator=GENERATOR, style=made.style, sheet=style, scripts=made.scripts, policy=made.policy,
    ))  # fmt: skip


def _rendered(name: str, **values: object) -> Markup:
    return Markup(environment().get_template(name).render(**values))  # noqa: S704 - escaped by the environment
