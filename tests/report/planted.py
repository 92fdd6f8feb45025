"""A study without training: tables drawn from a known model, with planted effects."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from mixlab.store import Tables

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
LINES = (
    ("knowledge", "tested", 300),
    ("knowledge", "rehearsed", 200),
    ("procedure", "", 300),
    ("format", "", 300),
    ("control", "", 200),
    ("vision", "", 300),
)


@dataclass
class Plant:
    """True scores, in shares of 1, and what text does to them."""

    reference: float = 0.97
    loss: dict[str, float] = field(
        default_factory=lambda: {"knowledge": 0.30, "procedure": 0.40, "format": 0.50}
    )
    kept_by_text: float = 0.9
    """Share of the loss that the full effect of text keeps away (reached at 25% text)."""
    kept_by_dilution: float = 0.1
    rehearsed_bonus: float = 0.5
    """Share of the remaining loss of knowledge that rehearsal takes away when there is text."""
    vision: float = 0.80
    floor: float = 0.30
    vision_cost: float = 0.04
    diverse_keeps: float = 0.3
    seed_spread: float = 0.015
    blind: float = 0.1
    """V(0) of the planted merge curve."""
    recovery_power: float = 3.0
    """R(alpha) = 1 - alpha**power; 1 is the straight chord."""
    seeds: tuple[int, ...] = (0, 1, 2)
    trials: int = 12
    scale: float = 1.0
    """Items against the default numbers of `LINES`."""
    merges: bool = True

    def retention(self, alpha: float) -> float:
        """V(alpha): from `blind` to 1, concave as R is."""
        return self.blind + (1 - self.blind) * (1 - (1 - alpha) ** self.recovery_power)


def _items(line: str, role: str, n: int, split: str) -> list[tuple[str, str]]:
    tag = f"{line}-{role or 'all'}-{split}"
    return [(f"{tag}-{i:04d}", f"{tag}-c{i // 2:04d}") for i in range(n)]


class _Writer:
    def __init__(self, plant: Plant, rng: np.random.Generator, names: dict[str, str]) -> None:
        self.plant, self.rng, self.names = plant, rng, names
        self.luck: dict[str, np.ndarray] = {}

    def block(self, line: str, role: str, n: int, split: str, p: float, **fixed: object):  # type: ignore[no-untyped-def]
        """Scores whose mean is near `p`: a shared difficulty makes runs agree item by item."""
        items = _items(line, role, n, split)
        key = f"{line}{role}{split}"
        if key not in self.luck:
            self.luck[key] = self.rng.permutation((np.arange(n) + 0.5) / n)
        luck = self.luck[key] + self.rng.normal(0, 0.08, n)
        cut = np.sort(luck)[min(n - 1, max(0, round(p * n) - 1))] if p * n >= 0.5 else -9
        score = (luck <= cut).astype(float)
        return pd.DataFrame(
            {
                "construct": line,
                "task": self.names.get(line, line),
                "item": [i for i, _ in items],
                "cluster": [c for _, c in items],
                "split": split,
                "role": role,
                "format": "short",
                "status": "ok",
                "score": score,
                "kind": "",
                **fixed,
            }
        )


def kept(plant: Plant, text: float, kind: str) -> float:
    """Share of the loss kept away at this text share."""
    if kind == "dilution":
        return plant.kept_by_dilution
    return plant.kept_by_text * min(text / 0.25, 1.0)


def write_study(folder: Path, plant: Plant | None = None, seed: int = 0, **names: str) -> Path:
    """Write tables and study.json of a planted study; returns the folder."""
    plant = plant or Plant()
    rng = np.random.default_rng(seed)
    writer = _Writer(plant, rng, {"knowledge": names.get("task", "facts")})
    tables = Tables(folder / "tables")
    arms: list[dict[str, object]] = [
        {"arm": names.get("arm", "no text"), "kind": "baseline", "f": 0.0, "mix": {"short": 1.0}},
        {"arm": "text 10%", "kind": "baseline", "f": 0.1, "mix": {"short": 1.0}, "one": True},
        {"arm": "text 25%", "kind": "baseline", "f": 0.25, "mix": {"short": 1.0}},
        {"arm": "text 50%", "kind": "baseline", "f": 0.5, "mix": {"short": 1.0}, "one": True},
        {
            "arm": "no text, diverse formats",
            "kind": "baseline",
            "f": 0.0,
            "mix": dict.fromkeys(("short", "letter", "sentence", "json"), 0.25),
        },
        {"arm": "dilution 25%", "kind": "dilution", "f": 0.0, "mix": {"short": 1.0}},
    ]
    trial_rows = []
    for number in range(plant.trials):
        f = float(rng.uniform(0, 0.6))
        mix = dict(
            zip(("short", "letter", "sentence", "json"), rng.dirichlet(np.ones(4)), strict=True)
        )
        arms.append(
            {
                "arm": f"trial {number}",
                "kind": "trial",
                "f": f,
                "mix": mix,
                "n": number,
                "one": True,
            }
        )
    every = [("reference", "reference", "reference", 0, 0.0), ("start", "start", "start", 0, 0.0)]
    run_rows, receipts, curves = [], [], []
    for index, arm in enumerate(arms):
        seeds = (0,) if arm.get("one") else plant.seeds
        for s in seeds:
            run = f"run{index:02d}s{s}"
            f = float(arm["f"])  # type: ignore[arg-type]
            mix = dict(arm["mix"])  # type: ignore[call-overload]
            budget = 100_000 * (0.75 if arm["kind"] == "dilution" else 1)
            run_rows.append(
                {
                    "run": run,
                    "arm": arm["arm"],
                    "kind": arm["kind"],
                    "recipe": f"recipe{index:02d}",
                    "seed": s,
                    "trial": arm.get("n", -1),
                    "text_fraction": f,
                    "formats": json.dumps(mix),
                    "realised_text_supervised": f * 1.01,
                    "realised_text_rows": f * 0.8,
                    "realised_text_tokens": f * 0.5,
                    "realised_formats": json.dumps(mix),
                    "steps": int(200 * budget / 100_000),
                    "supervised_tokens": int(budget),
                    "rows": 20_000,
                    "distinct_rows": 9_000,
                    "total_tokens": 900_000,
                    "learning_rate": 5e-4,
                    "plan": f"plan{index:02d}{s}",
                    "weights": f"weights{index:02d}{s}",
                    "train_seconds": 31.5,
                    "final_loss": 0.2,
                }
            )
            every.append((run, str(arm["arm"]), str(arm["kind"]), s, f))
            for source, modality, share in (("scenes", "vision", 1 - f), ("facts", "text", f)):
                for fmt, weight in mix.items():
                    n = int(budget * share * weight)
                    receipts.append(
                        {
                            "run": run,
                            "source": source,
                            "modality": modality,
                            "format": fmt,
                            "requested": share * weight,
                            "realised_rows": n // 5,
                            "realised_tokens": n * 4,
                            "realised_supervised": n,
                            "passes": 2.0,
                            "dropped": 3 if share else 0,
                            "reason": "too long" if share else "",
                        }
                    )
            curves.append(
                {
                    "run": run,
                    "step": 200,
                    "loss": 0.2,
                    "learning_rate": 0.0,
                    "supervised_tokens": 100_000,
                    "seconds": 31.5,
                }
            )
        if arm["kind"] == "trial":
            params = {"mix.text_fraction": arm["f"], "mix.formats": arm["mix"]}
            trial_rows.append(
                {
                    "number": arm["n"],
                    "recipe": f"recipe{index:02d}",
                    "arm": arm["arm"],
                    "state": "COMPLETE",
                    "params": json.dumps(params),
                    "text": 0.7,
                    "vision": 0.7,
                    "source": "sampler",
                }
            )
    for kind in ("reference", "start"):
        run_rows.append(
            {
                "run": kind,
                "arm": kind,
                "kind": kind,
                "recipe": kind,
                "seed": 0,
                "trial": -1,
                "weights": f"{kind}-weights",
            }
        )
    mixes = {str(a["arm"]): dict(a["mix"]) for a in arms}  # type: ignore[call-overload]
    for run, arm_name, kind, s, f in every:
        frames = []
        untouched = kind in ("reference", "start")
        mix = mixes.get(arm_name, {"short": 1.0})
        keep = kept(plant, f, kind)
        keep += (1 - keep) * plant.diverse_keeps * (1 - mix.get("short", 0.0)) / 0.75
        jitter = {line: rng.normal(0, plant.seed_spread) for line, _, _ in LINES}
        for line, role, full in LINES:
            n = int(full * plant.scale)
            for split in ("dev", "test"):
                if line == "vision":
                    if kind == "reference":
                        continue
                    top = plant.floor if untouched else plant.vision - plant.vision_cost * f / 0.25
                    top += 0 if untouched else jitter[line]
                    for condition, p in (("image", top), ("permuted", plant.floor)):
                        frames.append(
                            writer.block(
                                line, role, n, split, p, condition=condition, operator="none",
                                alpha=1.0,
                            )
                        )  # fmt: skip
                else:
                    lost = 0.0 if untouched else plant.loss.get(line, 0.0) * (1 - min(keep, 1))
                    if role == "rehearsed" and f > 0:
                        lost *= 1 - plant.rehearsed_bonus
                    p = plant.reference - lost + (0 if untouched else jitter[line])
                    frames.append(
                        writer.block(
                            line, role, n, split, p, condition="none", operator="none", alpha=1.0
                        )
                    )
                if kind not in ("baseline", "dilution") or line == "control" or not plant.merges:
                    continue
                for alpha in ALPHAS:
                    if line == "vision":
                        q = plant.floor + (top - plant.floor) * plant.retention(alpha)
                        condition = "image"
                    else:
                        gap = plant.reference - p
                        q = p + gap * (1 - alpha**plant.recovery_power)
                        condition = "none"
                    frames.append(
                        writer.block(
                            line, role, n, split, q, condition=condition, operator="merge",
                            alpha=alpha,
                        )
                    )  # fmt: skip
        frame = pd.concat(frames, ignore_index=True)
        strict = frame.assign(protocol="strict")
        semantic = frame.assign(protocol="semantic")
        frame = pd.concat([strict, semantic], ignore_index=True)
        frame["run"], frame["arm"], frame["seed"] = run, arm_name, s
        frame["modality"], frame["step"] = "vision", 200
        frame["weights"], frame["response"] = f"w{run}", names.get("response", "cat")
        tables.append("scores", frame, key=run)
    tables.append("runs", pd.DataFrame(run_rows), key="all")
    tables.append("receipts", pd.DataFrame(receipts), key="all")
    tables.append("curves", pd.DataFrame(curves), key="all")
    if trial_rows:
        tables.append("trials", pd.DataFrame(trial_rows), key="all")
    study = {
        "name": names.get("name", "planted"),
        "digest": "0123456789abcdef",
        "file": "sweeps/text_ratio.yaml",
        "starts": [{"command": "mixlab sweep sweeps/text_ratio.yaml", "time": "2026-01-01"}],
        "provenance": {"versions": {"mixlab": "0.1.0", "torch": "2.13.0"}, "cores": 2},
        "spec": {
            "pair": {"vlm": "testbed", "reference": "testbed"},
            "seeds": list(plant.seeds),
            "protocols": ["strict", "semantic"],
            "trials": plant.trials,
        },
    }
    (folder / "study.json").write_text(json.dumps(study), encoding="utf-8")
    return folder
