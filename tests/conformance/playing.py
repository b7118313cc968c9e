"""Golden sessions: scenarios of published systems, played step by step, with the prompts that they give.

`sessions/` has a file for each system: scenarios with a name, why they exist, and sessions. A session is a list of
steps, `[method of Agent, arguments, named arguments]`, played in several shapes (dialect, rules, header). The turns of
the first shape are kept as the segments that each adds to the turn before; of every shape there is a digest of the
request bodies. `make golden` writes them again.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from helpers.strategies.sessions import Agent, Turn
from lore.prompt.base import Rules

FILES = sorted((Path(__file__).parent / "sessions").glob("*.json"))


def scenarios(file: Path) -> list[dict[str, Any]]:
    """Read the scenarios of a file."""
    return json.loads(file.read_text("utf-8"))


def played(session: dict[str, Any]) -> dict[str, Any]:
    """Play a session in all of its shapes; return it with the outcome that it has now."""
    agents = [_play(shape, session["steps"]) for shape in session["shapes"]]
    shapes = [{**shape, "digest": _digest(agent)} for shape, agent in zip(session["shapes"], agents, strict=True)]
    return {"steps": session["steps"], "shapes": shapes, **_outcome(agents[0])}


def _play(shape: dict[str, Any], steps: list[list[Any]]) -> Agent:
    agent = Agent(shape["dialect"], Rules(**shape.get("rules", {})), **shape.get("header", {}))
    for method, arguments, named in steps:
        getattr(agent, method)(*arguments, **named)
    return agent


def _outcome(agent: Agent) -> dict[str, Any]:
    """Return the problems of a session, and each turn with the segments that it adds."""
    turns, previous = [], list[list[str]]()
    for turn in agent.turns:
        segments = _segments(turn)
        keep = _common(previous, segments)
        kinds = [str(event.__struct_config__.tag) for event in turn.events]
        turns.append({"events": kinds, "keep": keep, "append": segments[keep:]})
        previous = segments
    return {"problems": agent.problems, "turns": turns}


def _digest(agent: Agent) -> str:
    """Digest the request bodies of all turns."""
    return hashlib.sha256(b"\n".join(turn.body for turn in agent.turns)).hexdigest()[:16]


def _segments(turn: Turn) -> list[list[str]]:
    """Return origin and text of each segment, those of the tail under the section `tail`."""
    rows = [[one.origin or one.section, _text(one.data)] for one in (*turn.prompt.head, *turn.prompt.messages)]
    return rows + [[f"tail: {one.origin}", _text(one.data)] for one in turn.prompt.tail]


def _text(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    if len(text) <= 600:
        return text
    return f"{text[:200]}… {len(text)} characters, sha256 {hashlib.sha256(data).hexdigest()[:16]}"


def _common(left: list[list[str]], right: list[list[str]]) -> int:
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def text(scenarios: list[dict[str, Any]]) -> str:
    """Write scenarios as JSON with a line for each step, shape and added segment."""
    return _lines(scenarios, 0) + "\n"


def _lines(value: Any, depth: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    nested = isinstance(value, dict | list) and any(isinstance(one, dict | list) for one in _values(value))
    if not nested or len(flat) <= 100:
        return flat
    pad, end = " " * (depth + 1), " " * depth
    if isinstance(value, dict):
        rows = [f"{pad}{json.dumps(key)}: {_lines(one, depth + 1)}" for key, one in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{end}}}"
    return "[\n" + ",\n".join(pad + _lines(one, depth + 1) for one in value) + f"\n{end}]"


def _values(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value
