"""lm_head and embeddings: tied on one side, on both, or on none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mixlab.merge.planning._opening import Side
from mixlab.merge.planning._pairing import head_and_table
from mixlab.merge.planning._same import same_bytes


@dataclass(frozen=True)
class Heads:
    """The target's head.

    Args:
        head, table: names of its stored lm_head and token embeddings, if it has one of each.
        tied: its files hold the head though it is tied to the table.
        config_tied: what the output's config must say of tying; None where the target's is right.
        warnings: for the user.
    """

    head: str | None
    table: str | None
    tied: bool = False
    config_tied: bool | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: Side) -> Heads:
        """Compare what the config says with what the files hold."""
        head, table = head_and_table(target.source.entries)
        said = [part.get("tie_word_embeddings") for part in (target.config, target.text())]
        if head is None or table is None or True not in said:
            return cls(head, table)
        if same_bytes(target.source, head, target.source, table):
            return cls(head, table, tied=True)
        if False in said:
            # Parts of the config disagree; the files decide, as they do when it is loaded.
            return cls(head, table)
        told = (
            f"{target.folder}: config.json ties {head} to {table}, but the files hold different "
            "weights; they are taken as separate, and the output's config says so"
        )
        return cls(head, table, config_tied=False, warnings=(told,))


def pair_tied_heads(heads: Heads, others: Sequence[Side]) -> Iterator[str]:
    """Settle what a model without a head of its own gives for the target's; what to say if mixed.

    A tied model gives its embeddings; one whose config says untied has lost its head, and is left
    without a pair.
    """
    head, table = heads.head, heads.table
    if head is None or table is None or heads.tied:
        return
    for side in others:
        its = side.pairs.get(head)
        if its is None or its != side.pairs.get(table):
            continue
        if False in (side.config.get("tie_word_embeddings"), side.checkpoint.tied):
            del side.pairs[head]
            continue
        yield f"{side.folder} ties its lm_head to {its}; {head} is merged with that"


def lone_head(side: Side, heads: Heads) -> tuple[str | None, str | None]:
    """A model's own head where the target stores none, and a warning where it is not tied."""
    head, table = head_and_table(side.source.entries)
    if head is None or table is None or heads.head is not None or heads.table is None:
        return None, None
    if same_bytes(side.source, head, side.source, table):
        return head, None
    return head, (
        f"{side.folder}: {head} differs from {table}; the target ties the two, so this lm_head "
        "takes no part"
    )
