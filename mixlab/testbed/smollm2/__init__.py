"""SmolLM2-135M-Instruct and a small VLM over it: real language without a hub."""

from mixlab.testbed.smollm2.build import build_smollm2
from mixlab.testbed.smollm2.size import PairSize

__all__ = ["PairSize", "build_smollm2"]
