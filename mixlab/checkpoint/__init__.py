"""Checked reading of safetensors folders, and weight digests. Imports no transformers."""

from mixlab.checkpoint._digest import digest_folder, digest_state, distinct_tensors
from mixlab.checkpoint._dtypes import item_size, spell, tensor_size, torch_dtype
from mixlab.checkpoint._header import TensorEntry, read_header
from mixlab.checkpoint._index import check_inside, read_json_object, weight_files
from mixlab.checkpoint._layout import OutTensor, Shard, plan_shards
from mixlab.checkpoint._lora import LoraSource
from mixlab.checkpoint._matching import match_names
from mixlab.checkpoint._names import (
    MODULES,
    Module,
    Place,
    count_layers,
    is_vocabulary,
    language_prefix,
    tensor_place,
)
from mixlab.checkpoint._open import Checkpoint
from mixlab.checkpoint._plain import check_plain, text_part
from mixlab.checkpoint._reading import read_state
from mixlab.checkpoint._segments import SEGMENT, SegmentDigest, combine_digest, digest_source
from mixlab.checkpoint._source import TensorSource
from mixlab.checkpoint._vocabulary import read_bytes, read_vocabulary
from mixlab.checkpoint._writing import ShardWriter

__all__ = [
    "MODULES",
    "SEGMENT",
    "Checkpoint",
    "LoraSource",
    "Module",
    "OutTensor",
    "Place",
    "SegmentDigest",
    "Shard",
    "ShardWriter",
    "TensorEntry",
    "TensorSource",
    "check_inside",
    "check_plain",
    "combine_digest",
    "count_layers",
    "digest_folder",
    "digest_source",
    "digest_state",
    "distinct_tensors",
    "is_vocabulary",
    "item_size",
    "language_prefix",
    "match_names",
    "plan_shards",
    "read_bytes",
    "read_header",
    "read_json_object",
    "read_state",
    "read_vocabulary",
    "spell",
    "tensor_place",
    "tensor_size",
    "text_part",
    "torch_dtype",
    "weight_files",
]
