"""Fast paths: fused passes over parts that stay in the cache. Tests hold each to its formula."""

from mixlab.merge.kernels import _linear as _linear
