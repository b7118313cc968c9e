"""A tiny model for llama.cpp's server: it says nothing of worth, and takes every token and every text.

In: where to write it. Out: a file of the format GGUF, 150 KB. One layer of llama's architecture with 32 dimensions and
weights of nothing: every token is as likely as another, so a request's `logit_bias` decides what is generated. Its
vocabulary is the bytes, so that any text can be sent, and numbered tokens behind them. `window` makes it a model whose
layer looks back so many tokens (gemma2's architecture has such layers). Needs the package `gguf`.
"""

# The package is in the environment of the oracle.

from __future__ import annotations

import sys
from pathlib import Path

FIRST = 300  # the first numbered token
TOKENS = 4096
CHAT = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def write(path: Path) -> None:
    """Write the model."""
    import gguf
    import numpy

    size, layers, heads = 32, 1, 2
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(32_768)
    writer.add_embedding_length(size)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(size // heads)
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
    shapes = {"token_embd.weight": (TOKENS, size), "output.weight": (TOKENS, size), "output_norm.weight": (size,)}
    for layer in range(layers):
        name = f"blk.{layer}."
        shapes |= {name + norm + ".weight": (size,) for norm in ("attn_norm", "ffn_norm")}
        shapes |= {name + part + ".weight": (size, size) for part in ("attn_q", "attn_k", "attn_v", "attn_output")}
        shapes |= {name + part + ".weight": (size, size) for part in ("ffn_gate", "ffn_up", "ffn_down")}
    for name, shape in shapes.items():
        made = numpy.zeros(shape, dtype=numpy.float32 if len(shape) == 1 else numpy.float16)
        writer.add_tensor(name, made)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
