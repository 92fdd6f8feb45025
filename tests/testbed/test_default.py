"""The default testbed's promises; it is built in minutes, so these run with `pytest -m slow`."""

import time

import pytest

from mixlab.models import load_model
from mixlab.score import load_task, score_model
from mixlab.testbed import TestbedFolder, build

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def default_testbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[TestbedFolder, float]:
    """A build from nothing, and the seconds it took."""
    began = time.monotonic()
    folder = build(tmp_path_factory.mktemp("testbed"))
    return folder, time.monotonic() - began


def test_it_is_built_within_six_minutes(default_testbed: tuple[TestbedFolder, float]) -> None:
    assert default_testbed[1] < 360


def test_the_reference_masters_every_text_construct_on_test(
    default_testbed: tuple[TestbedFolder, float],
) -> None:
    folder, _ = default_testbed
    tasks = [load_task(path) for path in sorted(folder.tasks.glob("*.yaml"))]
    text = [task for task in tasks if task.construct != "vision"]
    rows = score_model(load_model(folder.reference), text, ["strict"], splits=["test"])
    taught = rows[rows["role"] != "never_taught"]
    for construct, mine in taught.groupby("construct"):
        assert len(mine) >= 500, construct
        assert mine["score"].mean() >= 0.95, construct
    never = rows[(rows["role"] == "never_taught") & (rows["construct"] == "knowledge")]
    assert never["score"].mean() < 0.3
