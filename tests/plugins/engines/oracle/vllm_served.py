"""Print the cached tokens that a served vLLM reports, with a model of one layer and no weights made here.

The first line is a JSON array of -1 and the cached tokens of four prompts (200 tokens, the same, 50 more, changed at
60), the others one for each sequence: its seed, then the cached tokens of each request. All go through one engine;
simultaneous requests are sent together; each generates one token. Needs vLLM (`make oracle-vllm` installs it) and some
minutes.
"""

# vLLM is in an environment of its own.
import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from plugins.engines.oracle.vllm_settings import LONGEST, ROOM, batches

# Before vLLM is imported: nothing is looked up or sent, nothing runs in another process.
os.environ |= {
    "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1",
}  # fmt: skip

_LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 64,
    "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1, "vocab_size": 75_000, "head_dim": 64,
    "max_position_embeddings": 4_096, "rms_norm_eps": 1e-5, "torch_dtype": "float32", "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip


def engine(folder: Path) -> Any:
    from vllm import LLM

    (folder / "config.json").write_text(json.dumps(_LLAMA), encoding="utf-8")
    return LLM(
        model=str(folder), load_format="dummy", skip_tokenizer_init=True, enforce_eager=True, dtype="float32",
        block_size=ROOM["block"], num_gpu_blocks_override=ROOM["capacity"] + 1, max_model_len=LONGEST,
        max_num_batched_tokens=8_192, max_num_seqs=32,
    )  # fmt: skip


def cached(engine: Any, prompts: list[tuple[list[int], str]]) -> list[int]:
    """Send prompts at once, each with the salt of its tenant; return the cached tokens of each."""
    from vllm import SamplingParams, TokensPrompt

    token_prompts = [
        TokensPrompt(prompt_token_ids=tokens, **({"cache_salt": tenant} if tenant else {}))
        for tokens, tenant in prompts
    ]
    answers = engine.generate(
        token_prompts, SamplingParams(max_tokens=1, detokenize=False, ignore_eos=True), use_tqdm=False
    )
    return [answer.num_cached_tokens for answer in answers]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="print what vLLM, served with a model without weights, says was cached"
    )
    parser.add_argument("--count", type=int, required=True)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        served = engine(Path(folder))
        first = list(range(3, 203))
        prompts = (first, first, [*first, *range(300, 350)], [*first[:60], 999, *first[61:]])
        print(json.dumps([-1, *(read for tokens in prompts for read in cached(served, [(tokens, "")]))]), flush=True)
        served.reset_prefix_cache()
        for seed in range(count):
            groups = [[(operation.tokens, operation.tenant) for operation in batch] for batch in batches(seed)]
            reads = [read for prompts in groups for read in cached(served, prompts)]
            print(json.dumps([seed, *reads], separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
