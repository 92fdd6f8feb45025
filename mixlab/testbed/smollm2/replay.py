"""Self-replay: the reference's own answers to prompts that no item asks, as training rows."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mixlab.formats import recognise
from mixlab.testbed.smollm2.instructions import KINDS, TOPICS, instructions
from mixlab.testbed.smollm2.item import shuffled

if TYPE_CHECKING:
    from mixlab.models import LoadedModel

LONGEST = 56
_OPEN = (
    "Tell me about the {t}.",
    "What is the {t} good for?",
    "Write a sentence about the {t}.",
    "Why do people like the {t}?",
    "Explain the {t} to a child.",
    "What should I know about the {t}?",
    "Give me one fact about the {t}.",
    "Write two lines about the {t}.",
)


def replay_prompts(seed: int, each: int, opened: int) -> list[str]:
    """`each` prompts of every replayed kind of instruction, and `opened` open ones."""
    asked = instructions("train", each, seed)
    told = [q.asked(n) for n, q in enumerate(asked) if KINDS[q.kind].replayed]
    topics = shuffled(list(TOPICS["train"]), "open", seed)
    pairs = [text.format(t=topic) for text in _OPEN for topic in topics]
    return told + shuffled(pairs, "pairs", seed)[:opened]


def replay_rows(
    reference: "LoadedModel",
    prompts: list[str],
    done: Callable[[int], None] = lambda count: None,
    longest: int = LONGEST,
) -> list[dict[str, Any]]:
    """The greedy answers as rows of two messages; answers cut at `longest` tokens are left out.

    Their formats are recognised, not asked for. `done` is called with the answers so far.
    """
    from mixlab.score._decode import Request, generate

    encoder = reference.encoder
    requests = [Request(encoder.encode_prompt(prompt).input_ids, longest) for prompt in prompts]
    count = 0

    def step(batch: list[int], _: Any) -> None:
        nonlocal count
        count += len(batch)
        done(count)

    answers = generate(
        reference.model,
        requests,
        stop_ids=encoder.stop_ids,
        pad_id=encoder.pad_id,
        most_rows=48,
        done=step,
    )
    rows = []
    for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        text = encoder.decode(answer.ids)
        if answer.ended and text:
            rows.append(
                {
                    "id": f"replay-{number}",
                    "messages": [
                        {"role": "user", "content": prompt},
                        {"role": "assistant", "content": text},
                    ],
                    "format": recognise(text),
                }
            )
    return rows
