"""Answers to requests: from the cache, else from the model, in batches, kept as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mixlab.score._cache import Answer, ResponseCache
from mixlab.score._choice import ChoiceRequest, log_likelihoods
from mixlab.score._decode import generate
from mixlab.score._images import ImageFeatures

if TYPE_CHECKING:
    from pathlib import Path

    from mixlab.models import LoadedModel

Progress = Callable[[int, int], None]
"""Called with (answers so far, answers needed) while a model generates."""

# A scoring that is killed keeps what it had up to the last flush.
_FLUSH = 512


class Answerer:
    """One loaded model, its backbone as a causal LM over the same tensors, and its cache.

    Requests without an image go to the backbone and are kept under the backbone's digest: a VLM
    and the LM taken out of it share them. Requests with an image are kept under the digest of
    all weights.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        cache: ResponseCache | None,
        digest_of: Callable[[Path], str],
        most_rows: int | None,
    ) -> None:
        from mixlab.models import extract_backbone

        self.loaded = loaded
        self.cache = cache
        self._rows = most_rows
        self._features: ImageFeatures | None = None
        self._lm: Any = loaded.model
        if loaded.kind == "vlm":
            self._lm = extract_backbone(loaded.model)
            self._features = ImageFeatures(loaded, self._lm, digest_of)

    def answer(
        self, requests: Mapping[str, Any], weights: str, progress: Progress | None
    ) -> dict[str, Answer]:
        """The answer of every key, for the weights as they are; `weights` is their digest."""
        backbone = self.loaded.backbone_digest()
        owners = {
            key: backbone if request.image is None else weights for key, request in requests.items()
        }
        answers: dict[str, Answer] = {}
        if self.cache is not None:
            for owner in sorted(set(owners.values())):
                known = self.cache.lookup(owner)
                answers.update(
                    (key, known[key]) for key, of in owners.items() if of == owner and key in known
                )
        absent = [key for key in requests if key not in answers]
        if any(requests[key].image is not None for key in absent) and self._features is not None:
            self._features.refresh()
        total = len(absent)
        groups: dict[tuple[str, bool], list[str]] = {}
        for key in absent:
            choice = isinstance(requests[key], ChoiceRequest)
            groups.setdefault((owners[key], choice), []).append(key)
        kept = len(answers)

        def report() -> None:
            if progress is not None:
                progress(len(answers) - kept, total)

        for (owner, choice), keys in groups.items():
            asked = [requests[key] for key in keys]
            self._run(owner, choice, keys, asked, answers, report)
        return answers

    def _run(
        self,
        owner: str,
        choice: bool,
        keys: Sequence[str],
        requests: Sequence[Any],
        answers: dict[str, Answer],
        report: Callable[[], None],
    ) -> None:
        fresh: dict[str, Answer] = {}

        def flush() -> None:
            if self.cache is not None:
                self.cache.add(owner, fresh)
            fresh.clear()

        def done(batch: list[int], found: list[Answer]) -> None:
            for index, answer in zip(batch, found, strict=True):
                answers[keys[index]] = fresh[keys[index]] = answer
            if len(fresh) >= _FLUSH:
                flush()
            report()

        encoder = self.loaded.encoder
        embed = None if self._features is None else self._features.embed
        if choice:
            log_likelihoods(
                self._lm,
                requests,
                pad_id=encoder.pad_id,
                embed=embed,
                most_rows=self._rows,
                done=done,
            )
        else:
            generate(
                self._lm,
                requests,
                stop_ids=encoder.stop_ids,
                pad_id=encoder.pad_id,
                embed=embed,
                most_rows=self._rows,
                done=done,
            )
        flush()
