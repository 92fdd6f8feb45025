"""Models whose weights can't be read as they stand: quantised, offloaded, wrapped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_PACKED = re.compile(
    r"Linear4bit|Linear8bitLt|QuantLinear|WQLinear|AwqLinear|FP8Linear|FbgemmFp8|QuantizedLinear"
    r"|HQQLinear|BitLinear|AutoBitLinear|EetqLinear|HiggsLinear|VptqLinear|SpQRLinear"
)
_PACKED_WEIGHTS = ("Params4bit", "Int8Params", "AffineQuantizedTensor", "QTensor")


def refuse_unreadable(model: PreTrainedModel) -> None:
    """Raise a MixlabError that names what stands between the model and its plain weights."""
    _adapters(model)
    _quantised(model)
    _absent(model)


def _adapters(model: PreTrainedModel) -> None:
    name = type(model).__name__
    inside = next((n for n, _ in model.named_parameters() if ".lora_" in n), None)
    if type(model).__module__.split(".")[0] == "peft":
        raise MixlabError(
            f"{name} wraps a model with adapters; call model = model.merge_and_unload() first"
        )
    if inside is not None or getattr(model, "_hf_peft_config_loaded", False):
        raise MixlabError(
            f"{name} has an adapter in it ({inside or 'see model.peft_config'}); merge it into the "
            "weights first: with PEFT, model = PeftModel.from_pretrained(base, adapter)"
            ".merge_and_unload()"
        )


def _quantised(model: PreTrainedModel) -> None:
    import torch

    config = getattr(model.config, "quantization_config", None)
    method = getattr(config, "quant_method", None)
    if isinstance(config, dict):
        method = config.get("quant_method")
    method = getattr(method, "value", method)
    where = next(
        (
            f"{path} is a {type(m).__name__}"
            for path, m in model.named_modules()
            if _PACKED.fullmatch(type(m).__name__)
        ),
        None,
    )
    if where is None:
        where = next(
            (
                f"{path} is {type(p).__name__} of {p.dtype}"
                for path, p in model.named_parameters()
                if type(p).__name__ in _PACKED_WEIGHTS
                or not (p.is_floating_point() or p.is_complex())
                or p.dtype in _FLOAT8(torch)
            ),
            None,
        )
    if where is None and method is None:
        return
    found = " ".join(filter(None, (f"by {method}" if method else "", f"({where})" * bool(where))))
    raise MixlabError(
        f"{type(model).__name__} is quantised {found}: its weights are codes, not numbers to mix. "
        "Load the unquantised checkpoint, or call model.dequantize() where the method has it, "
        "save it and load that"
    )


def _FLOAT8(torch: object) -> set[object]:
    names = [n for n in dir(torch) if n.startswith("float8_") or n.startswith("float4_")]
    return {getattr(torch, n) for n in names}


def _absent(model: PreTrainedModel) -> None:
    absent = [name for name, p in model.named_parameters() if p.is_meta]
    if absent:
        offloaded = any(hasattr(module, "_hf_hook") for module in model.modules())
        mend = "load it without device_map or with enough memory" if offloaded else "load them"
        state = "offloaded to disk or CPU by accelerate" if offloaded else "on the meta device"
        raise MixlabError(
            f"{type(model).__name__}: {len(absent)} weights are {state}, e.g. {absent[0]}; {mend}"
        )
    devices = sorted({str(p.device) for p in model.parameters()})
    if len(devices) > 1:
        raise MixlabError(
            f"{type(model).__name__} is spread over {', '.join(devices)}; an LM taken out of it "
            "would not find its inputs there: load it on one device"
        )
