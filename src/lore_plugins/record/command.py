"""`lore record`: write a command's requests to models into a capture."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from typing import Annotated

import typer
from msgspec import Struct

from lore.commands import common, flags
from lore.errors import LoreError
from lore.report import count_of, in_shell


class RecordOptions(Struct, frozen=True):
    """The options of `lore record`."""

    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The command to run; without one: --listen.")
    ] = None
    upstream: Annotated[
        list[str] | None,
        "URL for all clients, or NAME=URL for those of a provider; default: each client's own server.",
    ] = None
    only: Annotated[list[str] | None, "Point only these clients here: anthropic, openai, google, …"] = None
    output: Annotated[
        str | None, "--output", "-o", "The capture, new or to continue; default: record-DATE-TIME.jsonl in this folder."
    ] = None
    listen: Annotated[
        int | None, typer.Option("--listen", min=0, max=65535, help="Port; 0 and default: one that is free.")
    ] = None
    as_json: flags.AsJson = False
    verbose: flags.Verbose = False


@common.takes(RecordOptions)
def run(options: RecordOptions) -> int:
    """Run a command and record what its clients send to models.

    A proxy on this machine's loopback interface forwards each request to the provider that the client would have
    used, returns the answer, and writes both to a capture that every command reads. Credentials are not written;
    prompts and answers are. The exit code is the command's own (127: not found, 126: it cannot be run). Without a
    command, --listen PORT records agents that are started elsewhere, until Ctrl-C.

    Needs the extra `record`. lore's own lines go to standard error; --json adds one line after the command's output.
    """
    from lore_plugins.record.recorder import CannotRunError, CaptureProxy, child_environment, run_command, wait_for_end
    from lore_plugins.record.upstreams import make_routes

    if not options.command and options.listen is None:
        raise LoreError("there is nothing to record", hint="lore record -- COMMAND, or lore record --listen PORT")
    routes = make_routes(os.environ, options.upstream or (), options.only or ())
    recorder = CaptureProxy(routes, options.output, options.listen or 0, common.tell)
    pointing = recorder.environment()
    code, started = None, True
    try:
        if not options.command or options.verbose:
            common.tell(f"recording to {recorder.label}; listening on {recorder.address}")
            for route in routes.routes:
                common.tell(f"  {recorder.address}/{route.name} -> {route.origin}")
        if options.command:
            code = run_command(options.command, child_environment(os.environ, pointing))
            return code
        for line in export_lines(pointing, child_environment(os.environ, pointing)):
            if options.as_json:
                common.tell(line)
            else:
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()
        wait_for_end()
        return 0
    except CannotRunError as error:
        code, started = error.exit_code, False
        raise
    finally:
        recorder.stop(common.tell)
        counts = recorder.counts
        pointed = bool(options.command) and started
        for line in closing_lines(recorder.result_file, counts.calls, counts.lost, counts.refused, pointed=pointed):
            common.tell(line)
        if options.as_json:
            from lore.report import render

            with common.writing():
                before = "\n" if options.command else ""  # the command's last line may lack a newline
                sys.stdout.write(f"{before}{render(recorder.summary(code))}\n")


def export_lines(pointing: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Return shell lines that point a program's clients here, bypassing a proxy of the environment."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    proxied = any(environment.get(name) or environment.get(name.lower()) for name in proxies)
    past = {name: environment[name] for name in ("NO_PROXY", "no_proxy") if proxied and name in environment}
    return [f"export {name}={shlex.quote(value)}" for name, value in {**pointing, **past}.items()]


def closing_lines(path: str | None, calls: int, lost: int, refused: int, *, pointed: bool) -> list[str]:
    """Return the summary and the next command; `pointed`: a command ran with its clients pointed here."""
    recorded = f"recorded {count_of(calls, 'call')} in {path}"
    lines = ["nothing was recorded, so there is no file" if path is None else recorded]
    if lost:
        lines.append(f"{count_of(lost, 'call')} forwarded, but not written whole")
    if refused:
        lines.append(f"{count_of(refused, 'request')} refused")
    if calls > lost:
        lines += [f"next: lore check {shell}"] if (shell := in_shell(path or "")) else []
    elif pointed and not calls:
        lines.append("no client connected: a client with an address in its settings must be changed by hand "
                     "(lore guide record)")  # fmt: skip
    return lines
