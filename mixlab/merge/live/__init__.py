"""Merging of tensors that are in memory: state dicts, modules, models in use."""
