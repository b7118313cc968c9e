"""Write the golden outputs, events and digests again, and list what changed.

    python tests/golden/update.py [--check]

Run it after a change of lore's output, and read the difference before it is committed. `--check`
writes nothing. Without a corpus its entries stay as they are. Exit code 1 if a command's exit code is not the one
in `cases.txt`, if a recording has no case, or (with `--check`) if anything would change.
"""

import argparse
import difflib
import sys
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance import playing
from golden import cases, digests, scripts
from golden.commands import results
from store import answers

SHOWN = 30  # lines of a difference


def main(arguments: list[str] | None = None) -> int:
    """Run every case; write what differs."""
    parser = argparse.ArgumentParser(description="Write lore's golden outputs again.")
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
    changed += _keep_events(write=not given.check)
    entries = {name: results(name, cases.ROOT) for name in digests.inputs()}
    changed += _keep_entries(digests.FIXTURE_RESULTS, entries, write=not given.check)
    corpus = digests.corpus_names()
    if corpus:
        entries = {name: digests.corpus_entry(name) for name in corpus}
        changed += _keep_entries(digests.CORPUS_RESULTS, entries, write=not given.check)
    else:
        print("no corpus: its entries stay as they are")
    changed += _keep_sessions(write=not given.check)
    changed += _keep_scripts(write=not given.check)
    changed += _keep_answers(write=not given.check)
    missing = cases.uncovered(known)
    for path in missing:
        print(f"no case names {path}")
    print(
        f"{len(known)} cases, {changed} {'would change' if given.check else 'changed'}, {wrong} with another exit code"
    )
    return 1 if wrong or missing or (given.check and changed) else 0


def _keep_events(*, write: bool) -> int:
    """Write the rows of every fixture; remove files of fixtures that do not exist."""
    files = {digests.rows_file(name): digests.rows(name) for name in digests.inputs()}
    files |= {digests.rows_file_of_case(case): digests.rows_of_case(case) for case in digests.reader_cases()}
    changed = 0
    for file, after in files.items():
        before = file.read_bytes() if file.exists() else b""
        if before == after:
            continue
        changed += 1
        print(f"{'changed' if file.exists() else 'new'}: {file.relative_to(cases.ROOT)}")
        _show(before, after)
        if write:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(after)
    stray = [path for path in digests.EVENTS.rglob("*") if path.is_file() and path not in files]
    for path in stray:
        print(f"removed: {path.relative_to(cases.ROOT)}")
        if write:
            path.unlink()
    return changed + len(stray)


def _keep_sessions(*, write: bool) -> int:
    """Write the golden sessions of published systems."""
    return sum(
        _keep_played(file, playing.scenarios(file), _played_scenario, playing.text, write=write)
        for file in playing.FILES
    )


def _played_scenario(scenario: dict[str, Any]) -> dict[str, Any]:
    return {**scenario, "sessions": [playing.played(session) for session in scenario["sessions"]]}


def _keep_scripts(*, write: bool) -> int:
    """Write the golden scripts."""
    return sum(
        _keep_played(file, scripts.scripts(file), _played_script, scripts.text, write=write) for file in scripts.FILES
    )


def _played_script(script: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return scripts.played(script, Path(folder))


def _keep_answers(*, write: bool) -> int:
    """Write what the store in memory answers to the contract of stores."""
    before, after = answers.FILE.read_text("utf-8"), answers.answers()
    if before != after:
        print(f"changed: {answers.FILE.name}")
        _show(before.encode(), after.encode())
        if write:
            answers.FILE.write_text(after, "utf-8")
    return int(before != after)


def _keep_played(
    file: Path,
    before: list[dict[str, Any]],
    play: Callable[[dict[str, Any]], dict[str, Any]],
    text: Callable[[list[dict[str, Any]]], str],
    *,
    write: bool,
) -> int:
    after = [play(one) for one in before]
    changed = [new["name"] for old, new in zip(before, after, strict=True) if old != new]
    for name in changed:
        print(f"changed: {file.name}: {name}")
    if changed and write:
        file.write_text(text(after), "utf-8")
    return len(changed)


def _keep_entries(file: Path, after: dict[str, Any], *, write: bool) -> int:
    """Write a file of digests, and name the entries that changed."""
    before = digests.load(file)
    names = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
    for name in names:
        old, new = before.get(name, {}), after.get(name, {})
        fields = ", ".join(field for field in {**old, **new} if old.get(field) != new.get(field))
        print(f"changed: {file.name}: {name}: {fields}")
    if names and write:
        file.write_text(digests.text(after), "utf-8")
    return len(names)


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
