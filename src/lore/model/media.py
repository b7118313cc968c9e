"""The parts of a prompt that are pictures, sound, videos or files: bytes of their base64 show no tokens.

Sources: the references of Anthropic's, OpenAI's, Gemini's and Bedrock's APIs; `video_url` and `audio_url` are those of
vLLM, OpenRouter, Together and Xiaomi, `document_url` is Mistral's, `file_url` Perplexity's.
"""

from __future__ import annotations

IMAGE_TYPES = ("image", "image_url", "input_image")
FILE_TYPES = (
    "document", "document_url", "input_file", "file", "file_url", "input_audio", "audio", "audio_url", "video",
    "video_url", "input_video",
)  # fmt: skip
_GEMINI = ("inlineData", "inline_data", "fileData", "file_data")
_BEDROCK = ("document", "image", "video")
MEDIA_MEMBERS = frozenset((*_GEMINI, *_BEDROCK))

MEDIA_FORM = (  # of a regular expression
    rb'"type"\s*:\s*"(?:' + "|".join((*IMAGE_TYPES, *FILE_TYPES)).encode() + rb')"'
    rb'|"(?:' + "|".join(_GEMINI).encode() + rb')"\s*:'
    rb'|"(?:' + "|".join(_BEDROCK).encode() + rb')"\s*:\s*\{'
    rb'|"images"\s*:\s*\["'  # Ollama
    rb'|<(?:img|audio|video) src=\\"data:'  # in a text, of NVIDIA's models
)
