"""Say which seam is missing where an SDK was imported and no prompt was recorded.

In: the modules that are loaded, and what took the place of lore's wrappers. Out: a line for each SDK: its version, the
HTTP libraries that its modules hold, and for each whether lore records it. Nothing is imported. Cost O(names in the
modules of the SDKs), once, where nothing was recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, NamedTuple, cast

from lore.pytest_plugin.running import RECORDINGS
from lore.pytest_plugin.seams import LIBRARIES

# SDKs that send prompts: package of modules -> distribution. Those that only wrap others (LangChain) are left out.
SDKS = {
    "anthropic": "anthropic", "openai": "openai", "google.genai": "google-genai", "boto3": "boto3",
    "mistralai": "mistralai", "cohere": "cohere", "groq": "groq", "together": "together", "ollama": "ollama",
    "litellm": "litellm", "vertexai": "google-cloud-aiplatform", "xai_sdk": "xai-sdk", "huggingface_hub":
    "huggingface-hub", "cerebras.cloud.sdk": "cerebras-cloud-sdk", "writerai": "writer-sdk",
    "azure.ai.inference": "azure-ai-inference",
}  # fmt: skip
_BY_NAME = {"boto3": ("botocore",)}  # its own modules send nothing
_OTHERS = (
    "grpc", "websockets", "httpcore", "httpcore2", "http.client", "urllib.request", "pycurl", "curl_cffi", "niquests",
    "tornado", "azure.core",
)  # fmt: skip


class Missing(NamedTuple):
    """An SDK that is loaded, its version, and the HTTP libraries that its modules refer to."""

    sdk: str
    version: str
    libraries: tuple[str, ...]

    @property
    def line(self) -> str:
        """What a person reads: the seam that is missing, and why."""
        return f"{' '.join(filter(None, (self.sdk, self.version)))} was imported: {'; '.join(self._seams())}"

    def _seams(self) -> Iterable[str]:
        heard = [library for library in self.libraries if library in LIBRARIES and library not in RECORDINGS.replaced]
        if heard:
            yield f"it sends over {' or '.join(heard)}, which lore records, and no prompt passed there"
        for library in self.libraries:
            if library in RECORDINGS.replaced:
                yield f"{RECORDINGS.replaced[library]} took the place of what records {library}"
        others = [library for library in self.libraries if library not in LIBRARIES]
        if others:
            yield f"it sends over {' or '.join(others)}, which lore does not record"
        if not self.libraries:
            yield "it sends over no HTTP library that lore knows"


def missing() -> list[Missing]:
    """Find the SDKs that are loaded, with the seams through which nothing came."""
    return [
        Missing(distribution, _version(distribution), _BY_NAME.get(name) or _libraries(name))
        for name, distribution in SDKS.items()
        if sys.modules.get(name) is not None
    ]


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _libraries(name: str) -> tuple[str, ...]:
    """List the HTTP libraries that the modules of a package refer to: those that lore records, if there are any."""
    found: set[str] = set()
    for module, loaded in list(sys.modules.items()):
        if f"{module}.".startswith(f"{name}."):
            found.update(_referred(getattr(loaded, "__dict__", {})))
    known = tuple(library for library in (*LIBRARIES, *_OTHERS) if library in found)
    return tuple(library for library in known if library in LIBRARIES) or known


def _referred(names: Mapping[str, Any]) -> Iterable[str]:
    """Yield the libraries of the modules and classes among names; nothing else is looked at, as it may load more."""
    for value in list(names.values()):
        kind = cast("Any", type(value))
        if issubclass(kind, ModuleType | type):
            where = str(value.__dict__.get("__name__" if issubclass(kind, ModuleType) else "__module__", ""))
            yield from (library for library in (*LIBRARIES, *_OTHERS) if f"{where}.".startswith(f"{library}."))


HINT = (
    "lore records calls in this process, in a test that takes lore_recorder or inside recording(); a client that is "
    "faked above its HTTP library, or runs in another process, passes no seam"
)
