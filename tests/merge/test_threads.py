import threading
import time

import pytest
import torch

from mixlab.merge._threads import one_core_each, run_jobs, thread_count
from mixlab.spec import MixlabError


@pytest.mark.parametrize("threads", [1, 3])
def test_all_jobs_run_with_one_core_each_and_the_largest_begins(threads):
    started, cores, done = [], set(), []
    lock = threading.Lock()

    def job(size: int):
        def work() -> None:
            with lock:
                started.append(size)
                cores.add(torch.get_num_threads())

        return size, work

    before = torch.get_num_threads()
    run_jobs([job(size) for size in (3, 9, 1, 5)], threads, done.append)
    assert started[0] == 9
    assert sorted(started) == sorted(done) == [1, 3, 5, 9]
    assert cores == {1}
    assert torch.get_num_threads() == before


def test_the_first_error_stops_the_rest_and_restores_the_threads():
    ran = []

    def fail() -> None:
        raise MixlabError("no")

    def slow() -> None:
        time.sleep(0.01)
        ran.append(1)

    before = torch.get_num_threads()
    with pytest.raises(MixlabError, match="no"):
        run_jobs([(100, fail), *((1, slow) for _ in range(50))], 2, lambda size: None)
    assert len(ran) < 25
    assert torch.get_num_threads() == before


def test_blocks_of_several_threads_overlap_and_leave_no_trace():
    before = torch.get_num_threads()
    inside, leave, found = threading.Event(), threading.Event(), []

    def late() -> None:
        with one_core_each():
            inside.set()
            leave.wait(10)
        found.append(torch.get_num_threads())

    torch.set_num_threads(2)
    try:
        with one_core_each():
            other = threading.Thread(target=late)
            other.start()
            assert inside.wait(10)
            with one_core_each():
                pass
            assert torch.get_num_threads() == 1
        found.append(torch.get_num_threads())
        leave.set()
        other.join()
        new = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        new.start()
        new.join()
        # Here, in the thread that began meanwhile, and in one that began after.
        assert found == [2, 2, 2]
    finally:
        torch.set_num_threads(before)


def test_thread_counts():
    assert thread_count(None) >= 1
    assert thread_count(3) == 3
    with pytest.raises(MixlabError, match="threads is 0; expected 1 or more"):
        thread_count(0)
