import pytest

from mixlab.spec import MixlabError, Settings, register, registered, registered_names


class First(Settings):
    a: int = 0


class Second(Settings):
    a: int = 0


def test_register_find_and_refuse_a_second_owner() -> None:
    register("test.first", First)
    register("test.first", First)
    assert registered("test.first") is First
    assert "test.first" in registered_names()
    with pytest.raises(MixlabError, match="registered by"):
        register("test.first", Second)
    with pytest.raises(MixlabError, match=r"did you mean 'test\.first'"):
        registered("test.frist")
