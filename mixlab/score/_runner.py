"""Score a model: ask everything once, read each answer under every protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.score._asks import Ask, collect
from mixlab.score._cache import Answer, ResponseCache
from mixlab.score._conditions import CONDITIONS
from mixlab.score._judge import judge
from mixlab.score._protocol import Protocol, protocol
from mixlab.score._task import SPLITS, Task, check_word
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import pandas as pd

    from mixlab.models import LoadedModel
    from mixlab.score._answers import Answerer, Progress

COLUMNS = (
    "construct",
    "task",
    "item",
    "cluster",
    "split",
    "role",
    "format",
    "condition",
    "protocol",
    "status",
    "score",
    "weights",
    "response",
    "kind",
)
"""The columns of `score_model`, a part of the study's `scores`."""


class Scorer:
    """Tasks ready to be asked of one loaded model, again and again as its weights change.

    Prompts and image features are kept between calls, so a merge path pays for them once.

    Args:
        loaded: an LM or a VLM. An LM skips vision items under `image` and `permuted`.
        tasks: what to ask; names must differ.
        protocols: built-in names or Protocol objects; names must differ.
        splits: dev, test or both.
        conditions: for items with an image: image, permuted (within question kind, per task and
            split), none. Items without one are asked once, as `none`.
        cache: a folder for answers, or None to keep none.
        permutation_seed: decides the permuted images.
        most_rows: rows a batch; by default by device and memory.

    Raises:
        MixlabError: an unknown split, condition or protocol; two tasks or protocols of one name.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        tasks: Sequence[Task],
        protocols: Sequence[str | Protocol] = ("strict", "semantic"),
        *,
        splits: Sequence[str] = SPLITS,
        conditions: Sequence[str] = ("image",),
        cache: str | Path | ResponseCache | None = None,
        permutation_seed: int = 0,
        most_rows: int | None = None,
    ) -> None:
        for split in splits:
            check_word(split, SPLITS, "split")
        for condition in conditions:
            check_word(condition, CONDITIONS, "condition")
        self.loaded = loaded
        self.tasks = list(tasks)
        self.protocols = [protocol(given) for given in protocols]
        _check_distinct([task.name for task in self.tasks], "tasks")
        _check_distinct([proto.name for proto in self.protocols], "protocols")
        self.splits = tuple(dict.fromkeys(splits))
        self.conditions = tuple(dict.fromkeys(conditions))
        if cache is None or isinstance(cache, ResponseCache):
            self.cache = cache
        else:
            self.cache = ResponseCache(Path(cache))
        self._seed = permutation_seed
        self._rows = most_rows
        self._asks: list[Ask] | None = None
        self._requests: dict[str, Any] = {}
        self._answerer: Answerer | None = None

    def __call__(self, loaded: LoadedModel) -> pd.DataFrame:
        """`score`, in the shape that operators call; `loaded` must be this scorer's own."""
        if loaded is not self.loaded:
            raise MixlabError(f"this scorer is of {self.loaded.folder}, not of {loaded.folder}")
        return self.score()

    def collect(self) -> list[Ask]:
        """What `score` will ask, made once.

        Raises:
            MixlabError: an image cannot be read or permuted, or a prompt fills the context.
        """
        if self._asks is None:
            self._asks, self._requests = collect(
                self.loaded, self.tasks, self.protocols, self.splits, self.conditions, self._seed
            )
        return self._asks

    def score(self, progress: Progress | None = None) -> pd.DataFrame:
        """One row per item, condition and protocol, for the weights as they are now.

        Columns: `COLUMNS`. `score` is a float from 0 to 1, `status` is ok, empty (no text) or
        out_of_tokens (cut at the limit; read all the same), `weights` the digest of the whole
        model, `response` the generated text, or the chosen choice. `progress` is called with
        (answers so far, answers needed).
        """
        import pandas as pd

        from mixlab.score._answers import Answerer
        from mixlab.score._prompts import Prompts

        asks = self.collect()
        if self._answerer is None:
            self._answerer = Answerer(
                self.loaded, self.cache, Prompts(self.loaded.encoder).image, self._rows
            )
        weights = self.loaded.weights_digest()
        answers = self._answerer.answer(self._requests, weights, progress)
        texts: dict[str, str] = {}
        rows = []
        for ask in asks:
            if ask.task.metric == "choice":
                status, score, response = _choose(ask, answers[ask.key])
            else:
                if ask.key not in texts:
                    texts[ask.key] = self.loaded.encoder.decode(answers[ask.key].ids)
                status, score, response = _read(ask, answers[ask.key], texts[ask.key])
            rows.append(_row(ask, status, score, response, weights))
        return pd.DataFrame(rows, columns=list(COLUMNS))


def score_model(
    loaded: LoadedModel,
    tasks: Sequence[Task],
    protocols: Sequence[str | Protocol] = ("strict", "semantic"),
    *,
    splits: Sequence[str] = SPLITS,
    conditions: Sequence[str] = ("image",),
    cache: str | Path | ResponseCache | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Score `loaded` once; arguments, columns and errors as in `Scorer` and `Scorer.score`."""
    scorer = Scorer(loaded, tasks, protocols, splits=splits, conditions=conditions, cache=cache)
    return scorer.score(progress)


def _check_distinct(names: Sequence[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise MixlabError(f"{what} {', '.join(twice)} given twice; names must differ")


def _read(ask: Ask, answer: Answer, text: str) -> tuple[str, float, str]:
    if not answer.ended:
        status = "out_of_tokens"
    elif not text:
        status = "empty"
    else:
        status = "ok"
    return status, judge(ask.item, ask.task.metric, text, ask.protocol), text


def _choose(ask: Ask, answer: Answer) -> tuple[str, float, str]:
    """The likeliest choice; per character divides by the choice's characters (acc_norm)."""
    choices = ask.item.choices
    values = list(answer.values)
    if ask.protocol.choice == "per_character":
        values = [value / max(1, len(text)) for value, text in zip(values, choices, strict=True)]
    chosen = choices[max(range(len(values)), key=values.__getitem__)]
    return "ok", float(chosen in ask.item.golds), chosen


def _row(ask: Ask, status: str, score: float, response: str, weights: str) -> tuple[Any, ...]:
    item = ask.item
    return (
        ask.task.construct,
        ask.task.name,
        item.id,
        item.cluster,
        item.split,
        item.role,
        item.format,
        ask.condition,
        ask.protocol.name,
        status,
        score,
        weights,
        response,
        item.kind,
    )
