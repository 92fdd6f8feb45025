"""Fast paths: fused passes over parts that stay in the cache. Tests hold each to its formula."""

from mixlab.merge.kernels import _by_parts as _by_parts
from mixlab.merge.kernels import _by_rows as _by_rows
from mixlab.merge.kernels import _linear as _linear
from mixlab.merge.kernels import _lines as _lines
from mixlab.merge.kernels import _nearswap as _nearswap
from mixlab.merge.kernels import _random_direction as _random_direction
from mixlab.merge.kernels import _slerp as _slerp
from mixlab.merge.kernels import _sparse as _sparse
from mixlab.merge.kernels import _sphere as _sphere
from mixlab.merge.kernels import _task as _task
