"""The GitHub Action and the example of a workflow: their shell runs here, their inputs and expressions are held."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".github" / "actions" / "lore-check"
ACTION = yaml.safe_load((FOLDER / "action.yml").read_text("utf-8"))
EXAMPLE = ROOT / ".github" / "examples" / "lore.yml"
STEPS = ACTION["runs"]["steps"]
INSTALL, CHECK = (step for step in STEPS if "run" in step)
INPUTS = {name: one["default"] for name, one in ACTION["inputs"].items()}
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="steps of an action run in bash")


def expressions(value) -> list[str]:
    """Return every expression in a value, and what follows `if`."""
    if isinstance(value, dict):
        return [one for part in value.values() for one in expressions(part)]
    if isinstance(value, list):
        return [one for part in value for one in expressions(part)]
    return [one.strip() for one in EXPRESSION.findall(value)] if isinstance(value, str) else []


class Runner:
    """A folder that looks like a runner's: where steps write, and a lore that is installed there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temp = folder / "temp dir"
        self.program(self.temp / "lore-check" / "bin" / "lore", f'exec "{sys.executable}" -m lore "$@"')
        self.output, self.summary = folder / "output", folder / "summary"
        self.output.touch()
        self.summary.touch()

    def program(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def run(self, step: dict, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a step's shell as GitHub does, apart from this process's own settings."""
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        own = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TMPDIR") if name in os.environ}
        given = {
            "RUNNER_TEMP": str(self.temp), "GITHUB_OUTPUT": str(self.output), "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_ACTION_PATH": str(FOLDER), "GITHUB_ACTIONS": "true", "HOME": str(self.folder),
        }  # fmt: skip
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        return subprocess.run(
            command, cwd=cwd, env={**own, **given, **env}, capture_output=True, text=True, encoding="utf-8", check=False
        )

    def check(self, cwd: Path = ROOT, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run the step that checks, with these inputs (`-` written as `_`) and the others' defaults."""
        given = {**INPUTS, **{name.replace("_", "-"): value for name, value in inputs.items()}}
        env = {name: EXPRESSION.sub(lambda one: given[named(one[1])], text) for name, text in CHECK["env"].items()}
        return self.run(CHECK, cwd, **env)

    @property
    def outputs(self) -> dict[str, str]:
        """What the steps gave as outputs."""
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())


def named(expression: str) -> str:
    found = re.fullmatch(r"inputs\.([\w-]+)", expression.strip())
    assert found is not None, expression
    return found[1]


@pytest.fixture
def runner(tmp_path) -> Runner:
    """Return a runner."""
    return Runner(tmp_path)


def test_no_expression_becomes_part_of_a_shell_script() -> None:
    """Text of an input in a script is how workflows are injected: it has to come through the environment."""
    assert not any(EXPRESSION.search(step["run"]) for step in (INSTALL, CHECK))
    assert not any(re.search(r"\beval\b|bash -c|sh -c", step["run"]) for step in (INSTALL, CHECK))


def test_declared_and_used_inputs_are_the_same() -> None:
    used = {name for one in expressions(ACTION) for name in re.findall(r"\binputs\.([\w-]+)", one)}
    assert used == set(INPUTS)
    assert all(one["description"] for one in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))


def test_used_outputs_are_written_by_their_step() -> None:
    ids = {step["id"]: step for step in STEPS if "id" in step}
    for one in expressions(ACTION):
        for step, output in re.findall(r"steps\.([\w-]+)\.outputs\.([\w-]+)", one):
            if "run" in ids[step]:
                assert f'echo "{output}=' in ids[step]["run"]
            else:
                assert (ids[step]["uses"].partition("@")[0], output) == ("actions/setup-python", "python-path")


def test_script_variables_come_from_their_environment() -> None:
    for step in (INSTALL, CHECK):
        used = set(re.findall(r"\$\{?([A-Z][A-Z_]+)", step["run"]))
        assert used <= {*step["env"], "RUNNER_TEMP", "GITHUB_ACTION_PATH", "GITHUB_OUTPUT"}
        assert set(step["env"]) <= used


def test_steps_that_run_say_in_which_shell() -> None:
    assert [step["shell"] for step in (INSTALL, CHECK)] == ["bash", "bash"]
    assert ACTION["runs"]["using"] == "composite"


def test_sarif_is_uploaded_also_after_a_failure() -> None:
    assert STEPS[-1]["if"].startswith("${{ always() && inputs.upload-sarif == 'true'")


@needs_bash
def test_lore_is_installed_from_the_actions_own_checkout(runner) -> None:
    log = runner.folder / "log"
    inner = runner.temp / "lore-check" / "bin" / "python"
    runner.program(inner, f'printf "%s\\n" "$@" > "{log}"')
    python = runner.program(runner.folder / "python", 'test "$1 $2 $3" = "-I -m venv"')
    done = runner.run(INSTALL, LORE_PYTHON=str(python))
    assert done.returncode == 0, done.stderr
    *options, place = log.read_text().splitlines()
    assert options == ["-I", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    assert Path(place).resolve() == ROOT
    assert 'name = "lore-cache"' in (Path(place) / "pyproject.toml").read_text()


@needs_bash
def test_waste_fails_the_step_with_annotations(runner) -> None:
    done = runner.check(paths="fixtures/recordings")
    assert done.returncode == 1
    assert "::error file=fixtures/recordings/clock_in_system.jsonl,line=2,title=LORE101 date-in-prefix::" in done.stdout
    assert "3 cache breaks: 3 waste" in done.stdout
    assert "LORE101" in runner.summary.read_text()
    assert runner.outputs == {"exit-code": "1"}


@needs_bash
def test_stable_recordings_pass(runner) -> None:
    done = runner.check(paths="fixtures/recordings/stable.jsonl\nfixtures/sessions\n")
    assert (done.returncode, runner.outputs) == (0, {"exit-code": "0"})
    assert "::error" not in done.stdout


@needs_bash
@pytest.mark.parametrize(("fail_on", "path", "code", "answered"), [
    ("nothing", "fixtures/recordings", 0, "1"),
    ("waste", "fixtures/recordings", 1, "1"),
    ("incomplete", "odd", 3, "3"),
    ("waste", "odd", 0, "3"),
    ("nothing", "odd", 0, "3"),
    ("nothing", "no/such/file", 2, "2"),
    ("waste", "no/such/file\nno/such/folder", 2, "2"),  # passed, with nothing judged
])  # fmt: skip
def test_failing_findings_are_chosen_but_wrong_input_fails(runner, fail_on, path, code, answered) -> None:
    if path == "odd":
        path = str(runner.folder / "odd.jsonl")
        stable = (ROOT / "fixtures" / "recordings" / "stable.jsonl").read_text()
        Path(path).write_text(stable + '{"request": {"model": "x", "prompt": "an old shape"}}\n')
    done = runner.check(paths=path, fail_on=fail_on)
    assert (done.returncode, runner.outputs["exit-code"]) == (code, answered)


# A wrong input and a recording that could not be judged ended the step with a number and no annotation.
@needs_bash
@pytest.mark.parametrize(
    ("path", "said"),
    [("no/such/file", "::error title=lore check::cannot read no/such/file: no such file or directory"),
     ("fixtures/recordings/stable.jsonl", "")],
)  # fmt: skip
def test_error_of_the_step_is_annotated(runner, path, said) -> None:
    done = runner.check(paths=path)
    assert said in done.stdout
    assert said or "::" not in done.stdout


# A file name of two lines wrote an output of its own: `exit-code` could be said to be 0.
@needs_bash
@pytest.mark.parametrize("name", ["sarif", "baseline"])
def test_no_input_writes_an_output(runner, name) -> None:
    done = runner.check(paths="fixtures/recordings", **{name: f"{runner.folder}/x\nexit-code=0"})
    assert (done.returncode, runner.output.read_text()) == (2, "")
    assert "on one line" in done.stdout


@needs_bash
def test_unknown_word_for_failing_findings_is_an_error(runner) -> None:
    done = runner.check(fail_on="never")
    assert done.returncode == 2
    assert "::error" in done.stdout


@needs_bash
def test_sarif_is_written_if_requested_or_uploaded(runner) -> None:
    runner.check(paths="fixtures/recordings", upload_sarif="true")
    place = runner.temp / "lore.sarif"
    assert runner.outputs["sarif"] == str(place)
    assert json.loads(place.read_text())["version"] == "2.1.0"
    runner.output.write_text("")
    runner.check(paths="fixtures/recordings", sarif=str(runner.folder / "mine.sarif"))
    assert runner.outputs["sarif"] == str(runner.folder / "mine.sarif")


@needs_bash
def test_finding_outside_the_baseline_fails(runner) -> None:
    baseline = str(runner.folder / "base line.json")
    command = [sys.executable, "-m", "lore", "check", "fixtures/recordings", "--baseline", baseline]
    subprocess.run([*command, "--update-baseline"], cwd=ROOT, capture_output=True, check=False)
    assert runner.check(paths="fixtures/recordings", baseline=baseline).returncode == 0


@needs_bash
def test_options_are_passed_one_a_line(runner) -> None:
    done = runner.check(paths="fixtures/recordings/stable.jsonl", args="--min-reuse=1.0\r\n\n--ignore\nLORE2\n")
    assert done.returncode == 0, done.stderr
    assert runner.check(paths="fixtures/recordings/stable.jsonl", args="--no-such option").returncode == 2


@needs_bash
@pytest.mark.parametrize("hostile", ["$(touch pwned)", '"; touch pwned; "', "'; touch pwned; '", "a\n; touch pwned"])
@pytest.mark.parametrize("names", [("paths", "baseline", "sarif", "args"), ("fail_on",)], ids=["lore's", "own"])
def test_inputs_are_never_run(runner, hostile, names) -> None:
    place = runner.folder / "work"
    place.mkdir()
    shutil.copy(ROOT / "fixtures" / "recordings" / "stable.jsonl", place)
    runner.check(place, **dict.fromkeys(names, hostile))
    assert not list(runner.folder.rglob("pwned"))


@needs_bash
def test_path_like_an_option_is_a_path(runner) -> None:
    done = runner.check(paths="--version")
    assert done.returncode == 2
    assert "--version" in done.stderr


def test_example_uses_declared_inputs() -> None:
    workflow = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    (job,) = workflow["jobs"].values()
    (step,) = (one for one in job["steps"] if "lore" in one["uses"])
    assert step["uses"].partition("@")[0] == f"OWNER/lore/{FOLDER.relative_to(ROOT).as_posix()}"
    assert set(step["with"]) <= set(INPUTS)
    assert step["with"]["fail-on"] in ("incomplete", "waste", "nothing")
    assert workflow["permissions"] == {"contents": "read"}
    assert job["permissions"] == {"contents": "read", "security-events": "write"}


@needs_bash
def test_example_inputs_work_on_matching_files(runner) -> None:
    (step,) = (
        one for one in yaml.safe_load(EXAMPLE.read_text("utf-8"))["jobs"]["prompt-cache"]["steps"] if "with" in one
    )
    work = runner.folder / "work"
    stable = (ROOT / "fixtures" / "recordings" / "stable.jsonl").read_bytes()
    for folder, day in (("tests/recordings", b"2026-11-20"), ("tests/unit/cassettes", b"2026-11-21")):
        (work / folder).mkdir(parents=True)
        (work / folder / "stable.jsonl").write_bytes(stable.replace(b"2026-11-20", day))  # copies would count once
    inputs = {name.replace("-", "_"): text for name, text in step["with"].items() if "${{" not in text}
    done = runner.check(work, **inputs, upload_sarif="true")
    assert done.returncode == 0, done.stderr
    assert "2 files" in done.stdout


LINT = ROOT / ".github" / "examples" / "lore-lint.yml"
GUIDE = ROOT / "src" / "lore" / "guide" / "other-languages.md"


def lint_steps() -> dict[str, dict]:
    (job,) = yaml.safe_load(LINT.read_text("utf-8"))["jobs"].values()
    return {step["run"].split()[1]: step for step in job["steps"] if step.get("run", "").startswith("lore ")}


def test_guide_shows_steps_of_the_lint_workflow() -> None:
    shown = textwrap.dedent(re.search(r"(?m)(^    - name: .*\n(?:    .*\n)+)", GUIDE.read_text("utf-8"))[0])
    steps = textwrap.dedent(LINT.read_text("utf-8").partition("    steps:\n")[2])
    assert all(step in steps for step in shown.replace("- name", "\0- name").split("\0"))
    workflow = yaml.safe_load(LINT.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert not any(EXPRESSION.search(step.get("run", "")) for step in job["steps"])
    assert set(lint_steps()) == {"lint", "check"}


@needs_bash
@pytest.mark.parametrize(
    ("fixture", "codes", "said"),
    [("causes/LORE180/positive.jsonl", (1, 1), "::error file=bodies/a.jsonl"),
     ("recordings/clock_in_system.jsonl", (0, 1), "::warning file=bodies/a.jsonl"),
     ("recordings/stable.jsonl", (0, 0), "")],
)  # fmt: skip
def test_workflow_for_bodies_checks_a_folder(runner, fixture, codes, said) -> None:
    work = runner.folder / "work"
    (work / "bodies").mkdir(parents=True)
    shutil.copy(ROOT / "fixtures" / fixture, work / "bodies" / "a.jsonl")
    runner.program(runner.folder / "bin" / "lore", f'exec "{sys.executable}" -m lore "$@"')
    path = f"{runner.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = [runner.run(lint_steps()[name], work, DUMP_BODIES="bodies", PATH=path) for name in ("lint", "check")]
    assert tuple(one.returncode for one in done) == codes, [one.stderr for one in done]
    assert said in done[0].stdout


def test_workflows_pin_actions_by_digest():
    """A tag can be moved to other code, which then has what the job has: the right to publish.

    The action that others use uploaded its report by a tag, while only the workflows were looked at.
    """
    lines = [
        line.strip()
        for folder in ("workflows", "actions")
        for path in sorted((ROOT / ".github" / folder).rglob("*.yml"))
        for line in path.read_text("utf-8").splitlines()
        if "uses:" in line and "uses: ./" not in line
    ]
    assert len(lines) >= 12
    assert [line for line in lines if not re.search(r"uses: [\w./-]+@[0-9a-f]{40}  # v\d", line)] == []
