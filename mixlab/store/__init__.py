"""Atomic files, digests, run folders, locks and the study's tables. Imports no torch."""

from mixlab.store.atomic import (
    atomic_folder,
    clean_temporaries,
    scratch_folder,
    write_bytes,
    write_json,
    write_text,
)
from mixlab.store.cache import cache_dir
from mixlab.store.digests import canonical_json, digest, digest_arrays, digest_file
from mixlab.store.locks import lock_folder
from mixlab.store.reading import read_json
from mixlab.store.runs import RunFolder
from mixlab.store.space import check_free_space, disk_errors, readable
from mixlab.store.tables import Tables

__all__ = [
    "RunFolder",
    "Tables",
    "atomic_folder",
    "cache_dir",
    "canonical_json",
    "check_free_space",
    "clean_temporaries",
    "digest",
    "digest_arrays",
    "digest_file",
    "disk_errors",
    "lock_folder",
    "read_json",
    "readable",
    "scratch_folder",
    "write_bytes",
    "write_json",
    "write_text",
]
