"""A folder with a LoRA adapter on top, read as if the adapter had been merged into it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mixlab.checkpoint._adapter import AdapterConfig, read_adapter_config
from mixlab.checkpoint._dtypes import torch_dtype
from mixlab.checkpoint._header import TensorEntry, read_header
from mixlab.checkpoint._names import language_prefix, tensor_place
from mixlab.checkpoint._source import TensorSource
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch

_PREFIX = "base_model.model."
# Factor in the file -> (which of the two, whether it belongs to an embedding).
_FACTORS = {
    ".lora_A.weight": ("A", False),
    ".lora_B.weight": ("B", False),
    ".lora_embedding_A": ("A", True),
    ".lora_embedding_B": ("B", True),
}


@dataclass(frozen=True)
class _Delta:
    """W + scale * B @ A, transposed where the weight is stored (in, out) or (tokens, width)."""

    a: TensorEntry
    b: TensorEntry
    scale: float
    transposed: bool


class LoraSource:
    """TensorSource over `base` with every tensor that the adapter touches changed on reading.

    A touched weight is W + scale * B @ A, computed in float32 (float64 for a float64 weight) and
    rounded once to the dtype that the base stores. scale is alpha / r, or alpha / sqrt(r) with
    `use_rslora` (Hu et al. 2021, arXiv:2106.09685; Kalajdzievski 2023, arXiv:2312.03732); rank and
    alpha patterns, `fan_in_fan_out`, embeddings and `modules_to_save` are as in PEFT, whose
    `merge_and_unload` the tests hold this to. PEFT rounds the product to the stored dtype before it
    adds, so half-precision results differ from its by a rounding.

    Args:
        base: any source; its tensors that the adapter does not touch pass through.
        adapter_folder: with adapter_config.json and adapter_model.safetensors.

    Raises:
        MixlabError: the adapter is of a kind that is not handled (named), is pickled, names a
            weight that the base lacks, or is of another shape.
    """

    def __init__(self, base: TensorSource, adapter_folder: str | Path) -> None:
        self.base = base
        self.adapter = Path(adapter_folder)
        self.file = self.adapter / "adapter_model.safetensors"
        if not self.file.is_file():
            pickled = (self.adapter / "adapter_model.bin").is_file()
            raise MixlabError(
                f"{self.adapter}: only a pickled adapter (*.bin), which can run code when read; "
                "load it once with PEFT and call save_pretrained() to convert it to safetensors"
                if pickled
                else f"{self.adapter}: no adapter_model.safetensors; is it a LoRA adapter folder?"
            )
        self._descriptor = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC)
        self._deltas: dict[str, _Delta] = {}
        self._replaced: dict[str, TensorEntry] = {}
        try:
            self._match(read_adapter_config(self.adapter), read_header(self.file))
        except BaseException:
            self.close()
            raise

    @property
    def key(self) -> str:
        """The base's key and the adapter's name."""
        return f"{self.base.key}+{self.adapter.name}"

    @property
    def entries(self) -> Mapping[str, TensorEntry]:
        """Those of the base: an adapter changes values only."""
        return self.base.entries

    @property
    def touched(self) -> frozenset[str]:
        """Names of the tensors that the adapter changes."""
        return frozenset(self._deltas) | frozenset(self._replaced)

    def streams(self, name: str) -> bool:
        """Only what the adapter leaves alone."""
        return name not in self.touched and self.base.streams(name)

    def read_into(self, name: str, buffer: memoryview, start: int) -> None:
        """Fill `buffer` with the changed tensor's bytes from byte `start` on."""
        import torch

        if name not in self.touched:
            self.base.read_into(name, buffer, start)
            return
        data = self.read(name).reshape(-1).view(torch.uint8).numpy().data
        buffer[:] = data[start : start + len(buffer)]

    def read(self, name: str) -> torch.Tensor:
        """The whole changed tensor, in the dtype that the base stores."""
        import torch

        weight = self.base.read(name)
        dtype = weight.dtype
        if name in self._replaced:
            # PEFT stores an embedding whole beside its factors; they are added to what it stored.
            weight = self._factor(self._replaced[name])
        delta = self._deltas.get(name)
        if delta is None:
            return weight.to(dtype)
        wide = torch.promote_types(torch.float32, weight.dtype)
        a, b = self._factor(delta.a).to(wide), self._factor(delta.b).to(wide)
        # Of a product and its transpose the second costs no copy: (B A)^T = A^T B^T.
        product = a.T @ b.T if delta.transposed else b @ a
        return product.mul_(delta.scale).add_(weight).to(dtype)

    def close(self) -> None:
        """Close the adapter's file; the base is its opener's."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _factor(self, entry: TensorEntry) -> torch.Tensor:
        import torch

        data = bytearray(entry.stop - entry.start)
        filled = 0
        while filled < len(data):
            got = os.preadv(self._descriptor, [memoryview(data)[filled:]], entry.start + filled)
            if got <= 0:
                raise MixlabError(f"{self.file}: ends early; it changed since it was opened")
            filled += got
        if not data:
            return torch.empty(entry.shape, dtype=torch_dtype(entry.dtype))
        return torch.frombuffer(data, dtype=torch_dtype(entry.dtype)).reshape(entry.shape)

    def _match(self, config: AdapterConfig, header: Mapping[str, TensorEntry]) -> None:
        pairs: dict[tuple[str, bool], dict[str, TensorEntry]] = {}
        for name, entry in header.items():
            if entry.dtype not in {"F64", "F32", "F16", "BF16"}:
                raise MixlabError(f"{self.file}: {name} is {entry.dtype}; expected floats")
            if not name.startswith(_PREFIX):
                raise MixlabError(
                    f"{self.file}: {name} does not begin with {_PREFIX!r}; is it saved by PEFT?"
                )
            inner = name.removeprefix(_PREFIX)
            suffix = next((end for end in _FACTORS if inner.endswith(end)), None)
            if suffix is not None:
                factor, embedding = _FACTORS[suffix]
                pairs.setdefault((inner.removesuffix(suffix), embedding), {})[factor] = entry
                continue
            saved = config.saved_name(inner)
            if saved is None:
                raise MixlabError(
                    f"{self.file}: {name} is neither a LoRA factor nor among modules_to_save; "
                    "merge this adapter with PEFT (merge_and_unload) first"
                )
            target = self._find(saved)
            self._check(target, entry.shape, name)
            self._replaced[target] = entry
        if not pairs and not self._replaced:
            raise MixlabError(f"{self.file}: holds no LoRA factors; is it a LoRA adapter?")
        for (module, embedding), pair in pairs.items():
            if len(pair) != 2:
                (found,) = pair
                raise MixlabError(f"{self.file}: {module} has lora_{found} without its partner")
            target = self._find(f"{module}.weight")
            self._deltas[target] = self._delta(config, module, target, embedding, pair)

    def _find(self, target: str) -> str:
        """The base's name of a weight; files of VLMs name it otherwise than the model in memory,
        which the adapter was trained on (`language_model.model.` for `model.language_model.`)."""
        place = tensor_place(target)
        if target in self.base.entries or place.layer is None:
            return target
        prefix = language_prefix(self.base.entries) or ""
        return prefix + target[len(place.prefix) :]

    def _delta(
        self,
        config: AdapterConfig,
        module: str,
        target: str,
        embedding: bool,
        pair: Mapping[str, TensorEntry],
    ) -> _Delta:
        a, b = pair["A"], pair["B"]
        rank, alpha = config.rank_and_alpha(module)
        if len(a.shape) != 2 or len(b.shape) != 2 or not a.shape[0] == b.shape[1] == rank:
            raise MixlabError(
                f"{self.file}: {module}: lora_A {list(a.shape)} and lora_B {list(b.shape)} are no "
                f"factors of rank {rank} of a matrix"
            )
        transposed = embedding or config.fan_in_fan_out
        product = (b.shape[0], a.shape[1])
        self._check(target, product[::-1] if transposed else product, module)
        scale = alpha / rank**0.5 if config.use_rslora else alpha / rank
        return _Delta(a, b, scale, transposed)

    def _check(self, target: str, shape: tuple[int, ...], name: str) -> None:
        entry = self.base.entries.get(target)
        if entry is None:
            tied = " (its embeddings are tied)" if target == "lm_head.weight" else ""
            raise MixlabError(
                f"{self.file}: {name} changes {target}, which {self.base.key} lacks{tied}; does "
                "the adapter belong to this model?"
            )
        if entry.shape != shape:
            raise MixlabError(
                f"{self.file}: {name} makes {target} {list(shape)}, in {self.base.key} it is "
                f"{list(entry.shape)}; does the adapter belong to this model?"
            )
