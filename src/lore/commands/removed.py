"""Commands and options that were removed, and what to use instead. A row stays for one version.

`lore` answers a removed command or option with its sentence and exits with 2.
"""

from __future__ import annotations

# what was typed after `lore`, subcommands included ("store salvage", "store export --salvage") -> one sentence
REMOVED: dict[str, str] = {
    "limits": "A limit that is reached is reported as a problem, with file, line and byte.",
    "sql": "Query the tables of `lore check --report parquet=FOLDER` with DuckDB, see `lore guide tables`.",
    "fold --checkpoint": "`lore fold SESSION` folds the whole log each time; `--follow` shows a log as it grows.",
    "fold --verify": "It compared a log with its checkpoint; `lore fold SESSION` always reads the whole log.",
    "assemble --marks": "It is called --breakpoints.",
    "check --state": "Judge new recordings only with --since or --last.",
    "check --cluster": "Give the address of the scheduler to --jobs.",
    "check --color": "Set FORCE_COLOR=1 in the environment.",
    "check --follow": "`lore watch FILE` shows each request of a growing log with its verdict.",
    "check --for": "Set `reader` in [check] of lore.toml.",
    "check --max-breaks": "Set `max_breaks` in [check] of lore.toml.",
    "check --max-lost-tokens": "Set `max_lost_tokens` in [check] of lore.toml.",
    "check --no-color": "Set NO_COLOR=1 in the environment.",
    "check --open": "Write a page with --report html=FILE.html, or use `lore simulate --open`.",
    "check --system": "Verdicts do not need it; `lore diff-prefix` and `lore assemble` have it.",
    "check --tools": "Verdicts do not need it; `lore diff-prefix` and `lore assemble` have it.",
    "replay --open": "Use `lore simulate CAPTURE --open`.",
    "replay --report": "Use `lore simulate CAPTURE --report html=FILE.html`.",
    "simulate --markdown": "Use --csv or --json; `lore check --report markdown` writes findings.",
    "store export --salvage": (
        "`lore store verify` names each damaged event; copy the other lines of a `jsonl:` store's log, or use a backup."
    ),
}
