"""Why no prompt was recorded: SDKs that were imported, their versions, and whether lore records their HTTP libraries.

It costs O(names in the modules of the SDKs), and is asked once, if nothing was recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from lore.pytest_plugin.recorder import PROCESS
from lore.pytest_plugin.seams import LIBRARIES

# SDKs that send prompts: package of modules -> distribution. Packages that only wrap others (LangChain) are left out.
SDKS = {
    "anthropic": "anthropic", "openai": "openai", "google.genai": "google-genai", "boto3": "boto3",
    "mistralai": "mistralai", "cohere": "cohere", "groq": "groq", "together": "together", "ollama": "ollama",
    "litellm": "litellm", "vertexai": "google-cloud-aiplatform", "xai_sdk": "xai-sdk", "huggingface_hub":
    "huggingface-hub", "cerebras.cloud.sdk": "cerebras-cloud-sdk", "writerai": "writer-sdk",
    "azure.ai.inference": "azure-ai-inference",
}  # fmt: skip
_LIBRARIES_BY_SDK = {"boto3": ("botocore",)}  # its own modules send nothing
_OTHER_LIBRARIES = (
    "grpc", "websockets", "httpcore", "httpcore2", "http.client", "urllib.request", "pycurl", "curl_cffi", "niquests",
    "tornado", "azure.core",
)  # fmt: skip


def unrecorded_sdks() -> list[str]:
    """Return a line for each SDK that is loaded: the libraries that it sends over, and why no prompt was recorded."""
    lines: list[str] = []
    for name, distribution in SDKS.items():
        if sys.modules.get(name) is not None:
            fate = _describe_route(_LIBRARIES_BY_SDK.get(name) or _libraries_of(name))
            try:
                package = f"{distribution} {version(distribution)}"
            except PackageNotFoundError:
                package = distribution
            lines.append(f"{package} was imported: {fate}")
    return lines


def _describe_route(libraries: Sequence[str]) -> str:
    """Return in words which of these libraries, over which an SDK sends, lore records."""
    replaced = PROCESS.replaced
    recorded = [library for library in libraries if library in LIBRARIES and library not in replaced]
    others = [library for library in libraries if library not in LIBRARIES]
    parts = [f"it sends over {' or '.join(recorded)}, which lore records, and no prompt passed there"] * bool(recorded)
    parts += [f"{replaced[name]} replaced lore's wrapper of {name}" for name in libraries if name in replaced]
    parts += [f"it sends over {' or '.join(others)}, which lore does not record"] * bool(others)
    return "; ".join(parts) or "it sends over no HTTP library that lore knows"


def _libraries_of(name: str) -> list[str]:
    """Return the HTTP libraries that the modules of a package refer to: those that lore records, if there are any."""
    modules = [loaded for module, loaded in list(sys.modules.items()) if f"{module}.".startswith(f"{name}.")]
    origins: set[str] = set()  # of the modules and classes that they name; looking at other values may import more
    for value in [value for module in modules for value in list(getattr(module, "__dict__", {}).values())]:
        if issubclass(type(value), ModuleType):
            origins.add(f"{value.__dict__.get('__name__', '')}.")
        elif issubclass(type(value), type):
            origins.add(f"{value.__dict__.get('__module__', '')}.")
    libraries = [
        library
        for library in (*LIBRARIES, *_OTHER_LIBRARIES)
        if any(origin.startswith(f"{library}.") for origin in origins)
    ]
    return [library for library in libraries if library in LIBRARIES] or libraries


HINT = (
    "lore records calls in this process, in a test that takes lore_recorder or inside recording(); a client that is "
    "faked above its HTTP library, or runs in another process, is not recorded"
)
