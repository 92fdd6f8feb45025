"""What a study cannot say."""

from __future__ import annotations

from mixlab.attribute import DETECTABLE_FORMULA
from mixlab.report._findings import Findings


def limits(f: Findings) -> list[str]:
    """Sentences about what this study leaves open, from what it holds."""
    out: list[str] = []
    many = [r for r in f.arms if len(r.runs) >= 2]
    few = [r for r in [*f.arms, *f.trials] if len(r.runs) < 2]
    if many:
        out.append(
            f"Recipes are compared over {min(len(r.runs) for r in many)} to "
            f"{max(len(r.runs) for r in many)} training seeds; a t interval with so few is "
            "wide, and "
            "rests on seeds' means being near normal."
        )
    if few:
        out.append(
            f"{len(few)} recipes have one seed: what is said of them concerns checkpoints, "
            "not recipes."
        )
    pair = f.study.spec.get("pair")
    if isinstance(pair, dict) and "testbed" in str(pair.get("vlm", "")):
        out.append(
            "The pair is the testbed: a model of about a million parameters in a small world with "
            "known truth. Directions may carry over to larger models, sizes of effects need not."
        )
    sizes = [x.estimate.n_items for x in f.losses]
    if sizes:
        out.append(
            f"Each skill is read on {min(sizes)} to {max(sizes)} test items. The interval "
            "over seeds "
            "holds these items fixed; the one in the column “also over items” does not."
        )
    if f.curves:
        out.append(
            "Nulls for merging (a random direction of the same norm, the task vector "
            "permuted within "
            "each tensor), the text twin's curve and a skill-free anchor are not part of "
            "this study: J "
            "is read against the straight chord only, which is a yardstick, not a null. At alpha 0 "
            "the language weights are the reference's, so recovery by merging is repair, and says "
            "nothing about whether the skill was still there."
        )
    out.append(
        "Whether a loss is one of access or of capacity is not measured here: that takes access "
        "operators (hint, few-shot, refresh) with naive and positive controls."
    )
    if f.roles.dilution is None:
        out.append(
            "There is no dilution arm: at a fixed budget more text means less vision, and the two "
            "are not told apart."
        )
    out.append(
        "Batches hold equal supervised tokens. An equal-rows variant, the sensitivity check for "
        "effects of output format, was not run."
    )
    out.append(
        "The learning rate and the number of steps are the same for all arms; another schedule may "
        "lose or keep something else."
    )
    out.append(DETECTABLE_FORMULA[0].upper() + DETECTABLE_FORMULA[1:] + ".")
    out += f.notes
    return out
