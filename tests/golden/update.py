"""Write the golden outputs anew, and say what changed.

    python tests/golden/update.py [--check]

Run it after a change of what lore prints, and read the difference before it is committed. `--check`
writes nothing. Exit code 1 where a command's exit code is not the one in `cases.txt`, where a recording
has no case, or (with `--check`) where anything would change.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden import cases

SHOWN = 30  # lines of a difference


def main(arguments: list[str] | None = None) -> int:
    """Run every case; write what differs."""
    parser = argparse.ArgumentParser(description="Write lore's golden outputs anew.")
    parser.add_argument("--check", action="store_true", help="only say what would change")
    given = parser.parse_args(arguments)
    known = cases.cases()
    changed = wrong = 0
    for case in known:
        ran = cases.run(case.command)
        if ran.exit != case.exit:
            wrong += 1
            print(
                f"lore {case.command}\n  exit code {ran.exit}, cases.txt says {case.exit}: {ran.stderr.strip()[:300]}"
            )
            if ran.exit == 70:
                continue  # a bug's output is not golden
        changed += _keep(case, ran.stdout, write=not given.check)
    changed += _tidy({case.expected for case in known}, write=not given.check)
    missing = cases.uncovered(known)
    for path in missing:
        print(f"no case names {path}")
    print(
        f"{len(known)} cases, {changed} {'would change' if given.check else 'changed'}, {wrong} with another exit code"
    )
    return 1 if wrong or missing or (given.check and changed) else 0


def _keep(case: cases.Case, stdout: bytes, *, write: bool) -> bool:
    before = case.expected.read_bytes() if case.expected.exists() else None
    if before == stdout:
        return False
    print(f"{'new' if before is None else 'changed'}: lore {case.command}")
    if before is not None:
        _show(before, stdout)
    if write:
        cases.EXPECTED.mkdir(exist_ok=True)
        case.expected.write_bytes(stdout)
    return True


def _show(before: bytes, after: bytes) -> None:
    old, new = (text.decode("utf-8", "backslashreplace").splitlines() for text in (before, after))
    lines = list(difflib.unified_diff(old, new, "before", "after", lineterm="", n=1))
    for line in islice(lines, 2, SHOWN + 2):
        print(f"  {line[:200]}")
    if len(lines) > SHOWN + 2:
        print(f"  … and {len(lines) - SHOWN - 2} lines more")


def _tidy(wanted: set[Path], *, write: bool) -> int:
    """Remove outputs that belong to no case."""
    stray = [path for path in sorted(cases.EXPECTED.glob("*")) if path not in wanted]
    for path in stray:
        print(f"removed: {path.name}, no case prints it")
        if write:
            path.unlink()
    return len(stray)


if __name__ == "__main__":
    sys.exit(main())
