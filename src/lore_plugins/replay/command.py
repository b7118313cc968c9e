"""`lore replay`: send a recording to a server, and compare what it read from its cache with the prediction."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lore.commands import common, flags
from lore.errors import LoreError

if TYPE_CHECKING:
    from lore_plugins.replay.results import Replayed, ReplayEstimate
    from lore_plugins.replay.server import Server


class ReplayOptions(common.CommonOptions, frozen=True):
    """The options of `lore replay`."""

    recording: Annotated[
        str, "RECORDING", "A capture of requests, or a session, which lore assembles; lore formats lists them."
    ]
    server: Annotated[str, "--server", "Where to send it, as http://127.0.0.1:8080, with or without /v1."]
    dialect: Annotated[
        str | None, "Request shape: openai-chat, anthropic, openai-responses, gemini, bedrock; default: as recorded."
    ] = None
    layouts: Annotated[
        str | None, "Compare layouts: recorded, lore, system, user, persist, or LAYOUT:DIALECT; separated by commas."
    ] = None
    model: Annotated[str | None, "Request this model; default: as recorded."] = None
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="The most tokens to generate.")] = 1
    pace: Annotated[
        str | None,
        "Shorten recorded gaps: 10x, 2s (at most), both, 1x (as recorded), 0; default: 1s here, 5s elsewhere.",
    ] = None
    turns: Annotated[int | None, typer.Option("--turns", min=1, help="Send only this number of requests.")] = None
    cache: Annotated[str | None, "Predict this cache; default: the server's, else that of its host."] = None
    output: Annotated[str | None, "--output", "-o", "The capture to write; default: a dated name in this folder."] = (
        None
    )
    resume: Annotated[bool, "Continue the capture --output."] = False
    force: Annotated[bool, "Overwrite the capture if it exists."] = False
    dry_run: Annotated[bool, "Estimate requests and cost; send nothing."] = False
    yes: Annotated[bool, "Send to a server elsewhere without a question."] = False
    api_key_env: Annotated[
        str | None, "The variable that holds the key; default: the provider's, e.g. OPENAI_API_KEY."
    ] = None
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds that one answer may take.")] = 600.0
    redact: flags.Redact = False
    as_json: flags.AsJson = False
    format: flags.Format = None


@common.takes(ReplayOptions)
def run(options: ReplayOptions) -> int:
    """Send a recording to a server, and compare what it read from its cache with the prediction.

    Requests go out one at a time, in the recorded order, with one token to generate; every answer is written to a
    capture, which every command reads. Nothing is sent to another host than the one named, and to one that is not this
    machine only after a question.

    Exit code 2 if nothing could be sent, 3 if not everything was, 130 after Ctrl-C.
    """
    from lore.cache import cache_named
    from lore.recording import Options, is_stream, load_plugins
    from lore.run import Dated
    from lore.tokens import Counter
    from lore_plugins.replay.replaying import ReplayRun
    from lore_plugins.replay.server import Server, key_for

    if options.resume and options.output is None:
        raise LoreError("--resume continues a capture", hint="name it: --output FILE --resume")
    if is_stream(options.recording):
        raise LoreError("standard input and pipes can be read once only", hint="save it to a file")
    loaded = common.find_settings(options.config)
    if options.cache is not None:
        load_plugins()
        cache_named(options.cache)
    target = Server(options.server, seconds=options.timeout, quotes=not options.redact, tell=common.tell)
    with common.redact_errors(redact=options.redact):
        say = common.log(options.verbose)
        opening = Options(format=options.format, rules=loaded.settings.assemble, counter=Counter(), log=say)
        replay = ReplayRun(options, opening, Dated.of(loaded), target, say)
        estimate = replay.estimate() if options.dry_run or not target.near else None
        if not options.dry_run:
            dialect = options.dialect or replay.plans[0].result.dialect.partition(",")[0]
            target.key = key_for(options.server, dialect, options.api_key_env, os.environ)
            _confirm(target, estimate, yes=options.yes)
        result = replay.run(dry=options.dry_run, estimate=estimate)
    return _answer(result, options)


def _confirm(server: Server, estimate: ReplayEstimate | None, *, yes: bool) -> None:
    """Ask before anything is sent to another machine; raise LoreError without a yes."""
    from lore_plugins.replay.lines import estimate_in_words

    if server.near or estimate is None:
        return
    key = server.key.variable
    where = f"{server.label}, {f'with the key of {key}' if key else 'without a key'}"
    where += f", through the proxy {server.proxy}" if server.proxy else ""
    where += "" if server.encrypted else ", UNENCRYPTED"
    if yes:
        common.tell(f"{estimate_in_words(estimate)}; to {where}")
        return
    if not common.can_ask():
        message = f"{server.label} is not this machine, and there is no terminal to ask whether to send to it"
        raise LoreError(message, hint="--yes sends without a question, --dry-run estimates the cost")
    question = f"{estimate_in_words(estimate)}.\nSend the recording's prompts to {where}? [y/N] "
    if not common.ask_confirmation(question):
        raise LoreError("nothing was sent: it was not confirmed", hint="answer y, or give --yes")


def _answer(result: Replayed, options: ReplayOptions) -> int:
    from lore.report import redacted_result
    from lore_plugins.replay.lines import stopped_hint, write

    if result.stopped is not None and not any(layout.requests for layout in result.layouts):
        raise LoreError(result.stopped, hint=stopped_hint(result.stopped))
    result = redacted_result(result) if options.redact else result
    common.answer(result, partial(write, verbose=options.verbose), as_json=options.as_json, color=options.color)
    if result.stopped is not None:
        common.tell(f"error: {result.stopped}")
    is_complete = all(layout.same_as is not None or layout.requests >= layout.planned for layout in result.layouts)
    if result.interrupted:
        return common.INTERRUPTED
    was_only_estimated = (
        result.estimate is not None and result.stopped is None and not any(layout.capture for layout in result.layouts)
    )
    return 0 if is_complete or was_only_estimated else 3
