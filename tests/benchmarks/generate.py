"""Items per second of scoring's own decoding against transformers' generate, in one run.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.generate [--size default] [--items 1500]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.generate --model FOLDER --tasks FOLDER

Builds the testbed if no folders are given and it is not cached (minutes at the default size),
takes the text items of its generated tasks, decodes them on one thread in rounds that alternate
between the two, and prints the ratio of the best rounds. Greedy texts must be equal.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from mixlab.models import LoadedModel, load_model
from mixlab.score import Item, Task, load_task
from mixlab.score._decode import Request, generate
from mixlab.testbed import build


def by_mixlab(loaded: LoadedModel, requests: list[Request]) -> list[tuple[int, ...]]:
    encoder = loaded.encoder
    found = generate(loaded.model, requests, stop_ids=encoder.stop_ids, pad_id=encoder.pad_id)
    return [answer.ids for answer in found]


@torch.inference_mode()
def by_generate(loaded: LoadedModel, requests: list[Request], rows: int) -> list[tuple[int, ...]]:
    """Batches in file order, padded on the left, the longest limit of a batch for all its rows."""
    encoder, result = loaded.encoder, []
    for begin in range(0, len(requests), rows):
        batch = requests[begin : begin + rows]
        longest = max(len(request.ids) for request in batch)
        ids = torch.full((len(batch), longest), encoder.pad_id, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, request in enumerate(batch):
            ids[row, longest - len(request.ids) :] = torch.from_numpy(request.ids)
            mask[row, longest - len(request.ids) :] = 1
        out = loaded.model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=max(request.limit for request in batch),
            do_sample=False,
            eos_token_id=list(encoder.stop_ids),
            pad_token_id=encoder.pad_id,
        )
        for request, row in zip(batch, out[:, longest:].tolist(), strict=True):
            row = row[: request.limit]
            ends = [at for at, token in enumerate(row) if token in encoder.stop_ids]
            result.append(tuple(row[: ends[0]] if ends else row))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", default="default", choices=("default", "micro"))
    parser.add_argument("--model", type=Path)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--items", type=int, default=1500)
    parser.add_argument("--rows", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)

    if given.model is None or given.tasks is None:
        folder = build(size=given.size)
        given.model, given.tasks = folder.reference, folder.tasks
    loaded = load_model(given.model, device="cpu")
    tasks: list[Task] = [load_task(path) for path in sorted(given.tasks.glob("*.yaml"))]
    asked: list[tuple[Item, int]] = [
        (item, task.max_new_tokens)
        for task in tasks
        if task.metric != "choice"
        for item in task.items
        if item.image is None
    ]
    asked = asked[:: max(1, len(asked) // given.items)]
    requests = [
        Request(loaded.encoder.encode_prompt(item.question).input_ids, limit)
        for item, limit in asked
    ]
    ways = {"mixlab": lambda: by_mixlab(loaded, requests)}
    for rows in given.rows:
        ways[f"generate, {rows} rows"] = lambda rows=rows: by_generate(loaded, requests, rows)
    best: dict[str, float] = {}
    texts: dict[str, list[tuple[int, ...]]] = {}
    for _ in range(given.rounds):
        for name, way in ways.items():
            begin = time.process_time()
            texts[name] = way()
            spent = time.process_time() - begin
            best[name] = min(best.get(name, spent), spent)
    for name, spent in best.items():
        equal = sum(a == b for a, b in zip(texts[name], texts["mixlab"], strict=True))
        print(
            f"{name:20s} {len(requests) / spent:7.0f} items per CPU second, "
            f"{spent / best['mixlab']:.2f} times mixlab's time, {equal} of {len(requests)} equal"
        )


if __name__ == "__main__":
    main()
