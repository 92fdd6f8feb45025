"""mergekit's YAML files, run as they are: their language becomes plans like any other's.

Read: `models`, `slices`, `modules` (of one part), `merge_method` (every method of mergekit 0.1.5,
and ours), `base_model`, `parameters` with filters and gradients at every level, `dtype`,
`out_dtype`, `tokenizer_source`, `tokenizer` (`source`, `tokens`, `pad_to_multiple_of`),
`chat_template`, and `name` in files of several documents. A model may be a folder, `model+adapter`
(LoRA), a hub id, a hub id with `@revision`, or the name of another document.

Refused with the line: `residual_weight`, `override_architecture`, `out_path`, `modules` of several
parts, unknown keys and unknown settings (mergekit passes over most of these in silence).

Float32 results equal mergekit's to rounding. Known differences:

- Half precision is mixed in float32 and rounded once; see `plan_document`.
- Random methods (DARE, DELLA) draw other numbers: ours depend on seed, model, tensor and element.
- Where the last slice has more sources than the first, mergekit mixes only as many of them into
  the final norm and the head; here all count.
- The head of a model that ties it counts as its embeddings, as in mergekit, and the config of the
  output says whether it is tied. A stored copy of a tied head is not written.
- Without `base_model`, config and tokenizer are the first model's; mergekit takes any.
- Tokens of a union are numbered in the order of models and ids; in mergekit the numbers change
  from run to run.
- Experts keep the names that they have on the disk; mergekit writes those of the model in memory.
- Vision tensors that only the model of the config has are kept; what has no place in the output is
  listed as dropped.
"""

from mixlab.merge.mergekit_yaml._document import Document, is_mergekit, read_documents
from mixlab.merge.mergekit_yaml._references import Reference, parse_reference
from mixlab.merge.mergekit_yaml._stages import Stage, plan_mergekit, run_mergekit

__all__ = [
    "Document",
    "Reference",
    "Stage",
    "is_mergekit",
    "parse_reference",
    "plan_mergekit",
    "read_documents",
    "run_mergekit",
]
