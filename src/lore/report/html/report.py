"""What `lore check` and `lore lint` found, as a page; sessions are added by `run.html_report`."""

from __future__ import annotations

from rich.console import Console

from lore.report.terminal import Reported


class Html:
    """The report as one page for a browser."""

    mixes = False

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        from lore.report.html.intros import of_report  # noqa: PLC0415 - templates are loaded where a page is asked for
        from lore.report.html.page import page  # noqa: PLC0415

        intro = of_report(result, verbose=verbose)
        out.file.write(page(intro.title, heading=intro.heading, lead=intro.lead, blocks=intro.blocks))
