"""What tests of several rooms share: one micro testbed for the whole run."""

import pytest

from mixlab.testbed import TestbedFolder, build


@pytest.fixture(scope="session")
def micro_testbed(request: pytest.FixtureRequest) -> TestbedFolder:
    """A built micro testbed; read it, never write to it (it is kept between runs)."""
    return build(request.config.cache.mkdir("testbed"), size="micro")
