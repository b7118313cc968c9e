"""Write tiny models without meaning for llama.cpp's server, which accept every token and text.

It writes GGUF files of 400 to 700 KB to a folder: `tiny.gguf` (one layer, architecture llama), `window.gguf` (gemma2: a
layer with a window of `WINDOW` tokens and one without) and `state.gguf` (mamba). They have 32 dimensions and zero
weights: all tokens are equally likely, so `logit_bias` decides the output. The vocabulary is the bytes, so that any
text can be sent, then numbered tokens. Needs the package `gguf`.
"""

# The package is in the environment of the oracle.

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import gguf

FIRST = 300  # the first numbered token
TOKENS = 4096
CHAT = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


WINDOW = 48  # tokens
_SIZE, _INNER, _STATE, _KERNEL, _RANK = 32, 64, 4, 4, 2


class _Architecture(NamedTuple):
    """An architecture of llama.cpp, with the shapes of its tensors (outermost first)."""

    name: str
    layers: int
    layer: dict[str, tuple[int, ...]]
    whole: dict[str, tuple[int, ...]]


_SQUARE = (_SIZE, _SIZE)
_EMBEDDING = {"token_embd.weight": (TOKENS, _SIZE), "output_norm.weight": (_SIZE,)}
_OUTPUT = {**_EMBEDDING, "output.weight": (TOKENS, _SIZE)}
_ATTENTION = {
    **{f"attn_{part}.weight": _SQUARE for part in ("q", "k", "v", "output")},
    **{f"ffn_{part}.weight": _SQUARE for part in ("gate", "up", "down")},
    **{f"{norm}.weight": (_SIZE,) for norm in ("attn_norm", "ffn_norm")},
}
_SCANS = {
    "attn_norm.weight": (_SIZE,), "ssm_in.weight": (2 * _INNER, _SIZE), "ssm_conv1d.weight": (_INNER, _KERNEL),
    "ssm_conv1d.bias": (_INNER,), "ssm_x.weight": (_RANK + 2 * _STATE, _INNER), "ssm_dt.weight": (_INNER, _RANK),
    "ssm_dt.bias": (_INNER,), "ssm_a": (_INNER, _STATE), "ssm_d": (_INNER,), "ssm_out.weight": (_SIZE, _INNER),
}  # fmt: skip
_POST = {"post_attention_norm.weight": (_SIZE,), "post_ffw_norm.weight": (_SIZE,)}
MODELS = {
    "tiny": _Architecture("llama", 1, _ATTENTION, _OUTPUT),
    "window": _Architecture("gemma2", 2, {**_ATTENTION, **_POST}, _EMBEDDING),
    "state": _Architecture("mamba", 1, _SCANS, _OUTPUT),
}
_WHOLE = ("ssm_conv1d.weight", "ssm_a", "ssm_d")  # of single precision


def write(path: Path, architecture: _Architecture) -> None:
    import gguf
    import numpy

    heads = 2
    writer = gguf.GGUFWriter(str(path), architecture.name)
    writer.add_context_length(32_768)
    writer.add_embedding_length(_SIZE)
    writer.add_block_count(architecture.layers)
    writer.add_layer_norm_rms_eps(1e-5)
    if architecture.layer is _SCANS:
        writer.add_ssm_conv_kernel(_KERNEL)
        writer.add_ssm_inner_size(_INNER)
        writer.add_ssm_state_size(_STATE)
        writer.add_ssm_time_step_rank(_RANK)
    else:
        writer.add_feed_forward_length(_SIZE)
        writer.add_head_count(heads)
        writer.add_head_count_kv(heads)
        writer.add_rope_dimension_count(_SIZE // heads)
        writer.add_key_length(_SIZE // heads)
        writer.add_value_length(_SIZE // heads)
    if architecture.name == "gemma2":
        writer.add_sliding_window(WINDOW)
    _add_vocabulary(writer)
    layers = {
        f"blk.{n}.{name}": shape for n in range(architecture.layers) for name, shape in architecture.layer.items()
    }
    for name, shape in {**architecture.whole, **layers}.items():
        single = len(shape) == 1 or name.endswith(_WHOLE)
        writer.add_tensor(name, numpy.zeros(shape, dtype=numpy.float32 if single else numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    import gguf

    writer.add_vocab_size(TOKENS)
    writer.add_tokenizer_model("llama")
    special = ["<unk>", "<s>", "</s>"]
    names = [*special, *(f"<0x{byte:02X}>" for byte in range(256))]
    names += [f"<t{number}>" for number in range(len(names), TOKENS)]
    writer.add_token_list(names)
    writer.add_token_scores([0.0] * TOKENS)
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256
    writer.add_token_types([*kinds, *([gguf.TokenType.NORMAL] * (TOKENS - len(kinds)))])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)  # noqa: FBT003
    writer.add_add_space_prefix(False)  # noqa: FBT003
    writer.add_chat_template(CHAT)


if __name__ == "__main__":
    for name, made in MODELS.items():
        write(Path(sys.argv[1]) / f"{name}.gguf", made)
