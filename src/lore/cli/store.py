"""`lore store …`: keep sessions in a store, and look at what it holds."""

from __future__ import annotations

import typer

from lore.cli import store_filling, store_keeping

app = typer.Typer(
    help="Keep sessions in a store, saved by delta.\n\nWhoever may read its files or tables reads all of them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("import")(store_filling.import_)
app.command("export")(store_filling.export)
app.command("append")(store_filling.append)
app.command("list")(store_keeping.list_)
app.command("show")(store_keeping.show)
app.command("delete")(store_keeping.delete)
app.command("move")(store_keeping.move)
app.command("bind")(store_keeping.bind)
app.command("resolve")(store_keeping.resolve)
app.command("verify")(store_keeping.verify)
app.command("vacuum")(store_keeping.vacuum)
