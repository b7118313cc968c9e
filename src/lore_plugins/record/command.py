"""`lore record`: write a command's requests to models into a capture."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from msgspec import Struct

from lore.commands import common, flags
from lore.errors import LoreError


class RecordOptions(Struct, frozen=True):
    """The options of `lore record`."""

    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The command to run; without one: --listen.")
    ] = None
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            "--upstream",
            help="URL for all clients, or NAME=URL for those of a provider; default: each client's own server.",
        ),
    ] = None
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Point only these clients here: anthropic, openai, google, …")
    ] = None
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="The capture, new or to continue; default: record-DATE-TIME.jsonl in this folder."
        ),
    ] = None
    listen: Annotated[
        int | None, typer.Option("--listen", min=0, max=65535, help="Port; 0 and default: one that is free.")
    ] = None
    live: Annotated[bool, typer.Option("--live", help="Print a verdict for each request.")] = False
    as_json: flags.AsJson = False
    verbose: flags.Verbose = False
    config: flags.Config = None


@common.takes(RecordOptions)
def run(options: RecordOptions) -> int:
    """Run a command and record what its clients send to models.

    A proxy on this machine's loopback interface forwards each request to the provider that the client would have
    used, returns the answer, and writes both to a capture that every command reads. Credentials are not written;
    prompts and answers are. The exit code is the command's own (127: not found, 126: it cannot be run). Without a
    command, --listen PORT records agents that are started elsewhere, until Ctrl-C.

    Needs the extra `record`. lore's own lines go to standard error; --json adds one line after the command's output.
    """
    from lore.run import Dated
    from lore_plugins.record.live import closing_lines, export_lines
    from lore_plugins.record.recorder import CannotRunError, CaptureProxy, child_environment, run_command, wait_for_end
    from lore_plugins.record.upstreams import make_routes

    if not options.command and options.listen is None:
        raise LoreError("there is nothing to record", hint="lore record -- COMMAND, or lore record --listen PORT")
    dated = Dated.of(common.find_settings(options.config))
    routes = make_routes(os.environ, options.upstream or (), options.only or ())
    recorder = CaptureProxy(routes, options.output, options.listen or 0, common.tell)
    pointing = recorder.environment()
    watcher, code, started = None, None, True
    try:
        if not options.command or options.verbose:
            common.tell(f"recording to {recorder.label}; listening on {recorder.address}")
            for route in routes.routes:
                common.tell(f"  {recorder.address}/{route.name} -> {route.origin}")
        if options.live:
            from lore_plugins.record.live import LiveProcess

            watcher = LiveProcess(recorder.path, recorder.begin, dated, content=options.verbose)
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
        recorder.stop(common.tell, watcher.stop if watcher is not None else lambda: None)
        counts = recorder.counts
        pointed = bool(options.command) and started
        for line in closing_lines(recorder.result_file, counts.calls, counts.lost, counts.refused, pointed=pointed):
            common.tell(line)
        if options.as_json:
            from lore.report import render

            with common.writing():
                before = "\n" if options.command else ""  # the command's last line may lack a newline
                sys.stdout.write(f"{before}{render(recorder.summary(code))}\n")
