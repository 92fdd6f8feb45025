"""What the words on a page mean; docs and reports quote them from here."""

from __future__ import annotations

DEFINITIONS: dict[str, str] = {
    "loss": (
        "Loss is the reference's score minus the arm's score on the same test items, in points "
        "(hundredths of a full score). Positive means lost."
    ),
    "best": (
        "Each model is read by its own best protocol, chosen on dev; for format, where the form "
        "is the skill, by the first declared protocol."
    ),
    "seeds": (
        "Intervals are 95%. With two seeds or more they are Student's t over seeds and speak of "
        "recipes; with one seed they run over clusters of items and speak of two checkpoints, "
        "never of two recipes."
    ),
    "verdict": (
        "“no loss”: the loss lies within the margin by two one-sided 5% tests. “loss” and "
        "“gain”: the 95% interval leaves 0 out. Otherwise “undetermined”."
    ),
    "alpha": (
        "theta = (1 - alpha) * reference + alpha * tuned. alpha 1 is the VLM untouched; alpha 0 "
        "is the reference's language weights under the VLM's own vision tower and projector."
    ),
    "R": (
        "R(alpha) = (s(alpha) - s(VLM)) / (s(reference) - s(VLM)): the share of the lost text "
        "score that is back. Defined only where the loss is surely above the margin."
    ),
    "V": (
        "V(alpha) = (v(alpha) - floor) / (v(VLM) - floor): the share of the vision score above "
        "the floor that is kept. The floor is the VLM with images permuted within question "
        "type."
    ),
    "J": (
        "J = max over alpha of min(R, V), both clipped to 1; alpha is chosen on dev, J "
        "estimated on test."
    ),
    "J0": (
        "J0 = 1 / (2 - V(0)) is J on a straight chord; 0.5 only where the reference is blind. A "
        "yardstick, not a null."
    ),
    "text": (
        "The share of text is the share of supervised tokens (those that carry loss) that come "
        "from text-only rows, as realised in training."
    ),
    "dilution": (
        "The dilution arm has no text and the vision budget of the mixed arm: what it keeps, "
        "less vision training keeps; what text adds beyond it, text does."
    ),
    "unrehearsed": (
        "Rehearsed facts stood in the arms' text rows; unrehearsed facts stood in no arm, so "
        "what is kept there is not mere rehearsal."
    ),
    "churn": "Churn is the share of items that a retraining with another seed alone loses.",
}
