"""Build the wheel and the sdist of a commit, with the same bytes on every machine and day.

    python tests/release/building.py [--commit HEAD] [--output dist]

The files come from git, not from the folder; the time in the archives is the commit's (SOURCE_DATE_EPOCH). The build
backend is that of this environment: `.github/constraints.txt` says which one it is. The digests are printed as
`sha256sum` does.
"""

import argparse
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(commit: str, output: Path) -> list[Path]:
    """Build into a folder; return the wheel and the sdist. Raises CalledProcessError where git or the backend fails."""
    epoch = _git("log", "-1", "--format=%ct", commit).decode().strip()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lore-build-") as folder, tempfile.TemporaryDirectory() as made:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
            archive.extractall(folder, filter="data")
        subprocess.run(
            [sys.executable, "-m", "build", "--no-isolation", "--outdir", made, folder],
            check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
        )  # fmt: skip
        files = []
        for path in sorted(Path(made).iterdir()):
            files.append(output / path.name)
            files[-1].write_bytes(path.read_bytes())
    return files


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True).stdout


def main(arguments: list[str] | None = None) -> int:
    """Build, and print the digests."""
    parser = argparse.ArgumentParser(description="Build lore's wheel and sdist from a commit.")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    given = parser.parse_args(arguments)
    for path in build(given.commit, given.output):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
