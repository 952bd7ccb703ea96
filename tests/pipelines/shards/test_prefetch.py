"""Work done ahead: in order, bounded, and stopped by the first failure."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event

import pytest
from lapsvm.pipelines.shards.prefetch import prefetched

WAIT = 20  # seconds, then a test fails instead of hanging


def test_results_come_in_order_whichever_is_done_first():
    second_done = Event()

    def work(item):
        if item == 0:
            assert second_done.wait(WAIT)
        if item == 1:
            second_done.set()
        return item * item

    with ThreadPoolExecutor(2) as pool:
        assert list(prefetched(pool, work, range(9), 4)) == [(item, item * item) for item in range(9)]
        assert list(prefetched(pool, work, [], 4)) == []


def test_nothing_is_left_out_where_nothing_may_be_ahead():
    """As where a cluster has no worker at the moment: silence would pass for the end."""
    with ThreadPoolExecutor(1) as pool:
        assert list(prefetched(pool, str, range(3), 0)) == [(0, "0"), (1, "1"), (2, "2")]


@pytest.mark.parametrize("ahead", [1, 3])
def test_no_more_is_begun_than_may_be_ahead(ahead):
    begun = []
    with ThreadPoolExecutor(1) as pool, closing(prefetched(pool, begun.append, range(20), ahead)) as results:
        for taken, _ in enumerate(results, start=1):
            pool.submit(lambda: None).result()  # the thread has done all that it was given
            assert len(begun) == min(taken + ahead, 20)


def test_a_failure_stops_what_is_not_begun():
    begun, gate = [], Event()

    def work(item):
        begun.append(item)
        if item == 1:
            raise ValueError("one")
        if item == 2:
            assert gate.wait(WAIT)

    with ThreadPoolExecutor(1) as pool:
        results = prefetched(pool, work, range(10), 4)
        assert next(results)[0] == 0
        with pytest.raises(ValueError, match="one"):
            next(results)
        gate.set()
    assert begun == [0, 1, 2]
