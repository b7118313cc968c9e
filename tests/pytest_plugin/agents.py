"""Agents on today's SDKs and HTTP libraries: each sends prompts of one conversation to a server, in its own way.

An agent is a function of the server's URL (empty: that of the environment) and prompts; an async one runs them in one
loop. Libraries are imported by
the agent that uses them.
"""

import asyncio
import json
from functools import cache
from typing import NamedTuple

from helpers.provider_answers import TEXT

SECRET, KEY_ID = "sk-ant-api03-secretsecretsecret", "AKIASECRETSECRETSECR"
MODEL = "claude-opus-5"


class Prompt(NamedTuple):
    """A request of a conversation, apart from any provider's shape."""

    turns: int
    day: int = 20
    tools: tuple[str, ...] = ("read_file", "search")
    first: str = "What is new in the project since yesterday?"

    @property
    def system(self) -> str:
        return f"You are a careful engineer. Today is 2026-11-{self.day}. The project is confparse."

    @property
    def messages(self) -> list[tuple[str, str]]:
        """The messages, of the user first, the assistant next."""
        answered = [("assistant", "Nothing."), ("user", "And now?")] * (self.turns - 1)
        return [("user", self.first), *answered]


def schema(name: str) -> dict:
    return {"type": "object", "properties": {"path": {"type": "string", "description": f"where to {name}"}}}


def anthropic_body(prompt: Prompt, **more) -> dict:
    return {
        "model": MODEL, "max_tokens": 100, "cache_control": {"type": "ephemeral"}, "system": prompt.system,
        "tools": [{"name": name, "description": name, "input_schema": schema(name)} for name in prompt.tools],
        "messages": [{"role": role, "content": text} for role, text in prompt.messages], **more,
    }  # fmt: skip


def chat_body(prompt: Prompt, **more) -> dict:
    functions = [{"name": name, "description": name, "parameters": schema(name)} for name in prompt.tools]
    return {
        "model": "gpt-6", "tools": [{"type": "function", "function": function} for function in functions],
        "messages": [{"role": role, "content": text} for role, text in (("system", prompt.system), *prompt.messages)],
        **more,
    }  # fmt: skip


def responses_body(prompt: Prompt, **more) -> dict:
    return {
        "model": "gpt-6", "instructions": prompt.system, "store": False,
        "tools": [
            {"type": "function", "name": name, "description": name, "parameters": schema(name), "strict": False}
            for name in prompt.tools
        ],
        "input": [{"role": role, "content": text} for role, text in prompt.messages], **more,
    }  # fmt: skip


def gemini_arguments(prompt: Prompt) -> dict:
    roles = {"user": "user", "assistant": "model"}
    declared = [{"name": name, "description": name, "parameters": schema(name)} for name in prompt.tools]
    return {
        "model": "gemini-3-pro",
        "contents": [{"role": roles[role], "parts": [{"text": text}]} for role, text in prompt.messages],
        "config": {"system_instruction": prompt.system, "tools": [{"function_declarations": declared}]},
    }


def converse_arguments(prompt: Prompt) -> dict:
    specs = [{"name": name, "description": name, "inputSchema": {"json": schema(name)}} for name in prompt.tools]
    messages = [{"role": role, "content": [{"text": text}]} for role, text in prompt.messages]
    messages[-1]["content"].append({"cachePoint": {"type": "default"}})
    return {
        "modelId": "anthropic.claude-opus-5-v1:0", "system": [{"text": prompt.system}], "messages": messages,
        "toolConfig": {"tools": [{"toolSpec": spec} for spec in specs]},
    }  # fmt: skip


async def _drained(stream) -> None:
    async for _ in stream:
        pass


def _all(coroutines) -> None:
    """Run coroutines one after the other, in one loop; an iterator of them makes each when it is due."""

    async def run() -> None:
        async for _ in coroutines:
            pass

    asyncio.run(run())


def anthropic(url, prompts, stream=False) -> None:
    from anthropic import Anthropic

    with Anthropic(api_key=SECRET, base_url=url or None, max_retries=0) as client:
        for prompt in prompts:
            answer = client.messages.create(**anthropic_body(prompt), stream=stream)
            assert [*answer][-1].type == "message_stop" if stream else answer.content[0].text == TEXT


def anthropic_async(url, prompts, stream=False) -> None:
    from anthropic import AsyncAnthropic

    async def asks():
        async with AsyncAnthropic(api_key=SECRET, base_url=url or None, max_retries=0) as client:
            for prompt in prompts:
                answer = await client.messages.create(**anthropic_body(prompt), stream=stream)
                yield await _drained(answer) if stream else answer.content[0].text

    _all(asks())


def openai(url, prompts, stream=False, responses=False) -> None:
    from openai import OpenAI

    with OpenAI(api_key=SECRET, base_url=url and f"{url}/v1" or None, max_retries=0) as client:
        for prompt in prompts:
            if responses:
                answer = client.responses.create(**responses_body(prompt), stream=stream)
            else:
                answer = client.chat.completions.create(**chat_body(prompt), stream=stream)
            assert list(answer) if stream else answer.id


def openai_async(url, prompts, stream=False, responses=False) -> None:
    from openai import AsyncOpenAI

    async def asks():
        async with AsyncOpenAI(api_key=SECRET, base_url=url and f"{url}/v1" or None, max_retries=0) as client:
            for prompt in prompts:
                if responses:
                    answer = await client.responses.create(**responses_body(prompt), stream=stream)
                else:
                    answer = await client.chat.completions.create(**chat_body(prompt), stream=stream)
                yield await _drained(answer) if stream else answer.id

    _all(asks())


def gemini(url, prompts, stream=False) -> None:
    from google import genai

    with genai.Client(api_key=SECRET, http_options={"base_url": url or None}) as client:
        for prompt in prompts:
            if stream:
                answers = list(client.models.generate_content_stream(**gemini_arguments(prompt)))
            else:
                answers = [client.models.generate_content(**gemini_arguments(prompt))]
            assert answers[-1].text == TEXT


def gemini_async(url, prompts, stream=False) -> None:
    from google import genai

    async def asks():
        async with genai.Client(api_key=SECRET, http_options={"base_url": url or None}).aio as client:
            for prompt in prompts:
                if stream:
                    yield await _drained(await client.models.generate_content_stream(**gemini_arguments(prompt)))
                else:
                    yield await client.models.generate_content(**gemini_arguments(prompt))

    _all(asks())


@cache
def _bedrock(url):
    import boto3

    return boto3.client(
        "bedrock-runtime", region_name="eu-west-1", endpoint_url=url or None, aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
    )  # fmt: skip


def bedrock(url, prompts, stream=False) -> None:
    for prompt in prompts:
        if stream:
            assert list(_bedrock(url).converse_stream(**converse_arguments(prompt))["stream"])[-1]["metadata"]
        else:
            assert _bedrock(url).converse(**converse_arguments(prompt))["stopReason"] == "end_turn"


KEYS = {"authorization": f"Bearer {SECRET}", "x-api-key": SECRET}


def httpx(url, prompts, stream=False, library="httpx") -> None:
    module = __import__(library)
    with module.Client(headers=KEYS) as client:
        for prompt in prompts:
            body = anthropic_body(prompt, stream=stream)
            with client.stream("POST", f"{url}/v1/messages?key={SECRET}", json=body) as answer:
                assert list(answer.iter_lines()) if stream else answer.read()


def httpx_async(url, prompts, stream=False, library="httpx") -> None:
    module = __import__(library)

    async def asks():
        async with module.AsyncClient(headers=KEYS) as client:
            for prompt in prompts:
                body = anthropic_body(prompt, stream=stream)
                async with client.stream("POST", f"{url}/v1/messages?key={SECRET}", json=body) as answer:
                    yield await _drained(answer.aiter_lines()) if stream else await answer.aread()

    _all(asks())


def requests(url, prompts, stream=False) -> None:
    from requests import Session

    with Session() as session:
        session.trust_env = False
        for prompt in prompts:
            body = anthropic_body(prompt, stream=stream)
            answer = session.post(f"{url}/v1/messages?key={SECRET}", json=body, headers=KEYS, stream=stream)
            assert list(answer.iter_lines()) if stream else answer.json()


def urllib3(url, prompts, stream=False) -> None:
    from urllib3 import PoolManager

    with PoolManager(headers=KEYS) as pool:
        for prompt in prompts:
            body = json.dumps(anthropic_body(prompt, stream=stream))
            answer = pool.request("POST", f"{url}/v1/messages?key={SECRET}", body=body, preload_content=not stream)
            assert b"".join(answer.stream()) if stream else answer.json()


def aiohttp_async(url, prompts, stream=False) -> None:
    from aiohttp import ClientSession

    async def asks():
        async with ClientSession(headers=KEYS) as session:
            for prompt in prompts:
                body = anthropic_body(prompt, stream=stream)
                async with session.post(f"{url}/v1/messages?key={SECRET}", json=body) as answer:
                    yield await _drained(answer.content) if stream else await answer.json()

    _all(asks())
