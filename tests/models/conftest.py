import pytest
from tiny_pair import write_pair

from mixlab.models import load_model


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def reference(folders):
    return load_model(folders[0], device="cpu")


@pytest.fixture
def vlm(folders):
    return load_model(folders[1], device="cpu")
