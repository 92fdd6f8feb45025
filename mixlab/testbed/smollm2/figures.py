"""How the reference stands on the dev items, by kind: what the choice of kinds rests on."""

from pathlib import Path
from typing import Any

from mixlab.models import LoadedModel

LOWEST, HIGHEST = 0.3, 0.9


def dev_rates(reference: LoadedModel, tasks: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """By task: items, share right of all and by kind (semantic protocol), kinds out of the band.

    The band is 30% to 90%, inclusive; one that a build finds outside is reported, not dropped, so
    that the items do not depend on the machine.
    """
    from mixlab.score import load_task, score_model

    rates = {}
    for name in names:
        rows = score_model(
            reference, [load_task(tasks / f"{name}.yaml")], ["semantic"], splits=["dev"]
        )
        kinds = {
            str(k): round(float(v), 4) for k, v in rows.groupby("kind")["score"].mean().items()
        }
        rates[name] = {
            "items": len(rows),
            "all": round(float(rows["score"].mean()), 4),
            "kinds": kinds,
            "outside": [kind for kind, rate in kinds.items() if not LOWEST <= rate <= HIGHEST],
        }
    return rates
