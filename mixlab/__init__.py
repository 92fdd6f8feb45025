"""mixlab: a model-merging and mixture-ablation lab for vision-language models."""

__version__ = "0.1.0"
