"""`lore schema`: a result's JSON Schema."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from lore.cli.common import quiet_pipe


@quiet_pipe
def run(
    name: Annotated[
        str | None, typer.Argument(help="diff-prefix, check, fold, assemble-all, …; without one, all names.")
    ] = None,
) -> int:
    """Print the JSON Schema of a result."""
    import msgspec

    from lore.errors import LoreError
    from lore.model.schemas import SCHEMAS

    if name is None:
        sys.stdout.write("\n".join(SCHEMAS) + "\n")
        return 0
    if name not in SCHEMAS:
        raise LoreError(f"no result is called {name!r}", hint="results: " + ", ".join(SCHEMAS))
    schema = msgspec.json.schema(SCHEMAS[name])
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"lore {name}", **schema}
    sys.stdout.write(json.dumps(schema, indent=2) + "\n")
    return 0
