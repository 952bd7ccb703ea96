"""The thread on which classes learn: one job at a time, the newest of a key, and an end at once."""

import time
from threading import Event, Thread, current_thread

import pytest
from lapsvm.pipelines.review.worker import StoppedError, Worker


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.stop(10)


def finished(worker):
    """Wait until all jobs so far are done."""
    done = Event()
    worker.ask(done, done.set)
    assert done.wait(30)


def test_the_newest_job_of_a_key_replaces_those_that_wait(worker):
    done, go_on, begun = [], Event(), Event()

    def first():
        begun.set()
        assert go_on.wait(30)
        done.append("first")

    worker.ask("a", first)
    assert begun.wait(30)
    for number in range(100):
        worker.ask("a", lambda number=number: done.append(f"a{number}"))
        worker.ask("b", lambda number=number: done.append(f"b{number}"))
    go_on.set()
    finished(worker)
    assert done == ["first", "a99", "b99"]


def test_jobs_run_one_at_a_time_on_one_thread(worker):
    running, most, threads = [], [], set()

    def job():
        running.append(1)
        threads.add(current_thread().ident)
        time.sleep(0.002)
        most.append(len(running))
        running.pop()

    askers = [Thread(target=lambda first=first: [worker.ask((first, n), job) for n in range(10)]) for first in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    finished(worker)
    assert most == [1] * 40
    assert len(threads) == 1
    assert current_thread().ident not in threads


def test_a_stop_ends_a_job_at_its_next_step_and_begins_no_other(worker):
    begun, done, ended = Event(), [], []

    def job():
        with worker.reporter.bar("work", None) as bar:
            begun.set()
            try:
                while True:
                    bar.step()
                    time.sleep(0.001)
            except Exception:  # noqa: BLE001 - as a library may
                done.append("swallowed")
            finally:
                ended.append(bar.done)

    worker.ask("a", job)
    worker.ask("b", lambda: done.append("b"))
    assert begun.wait(30)
    assert worker.stop(30)
    assert ended
    assert not done


def test_a_stop_does_not_wait_for_a_job_that_does_not_notice(worker):
    begun, end = Event(), Event()

    def deaf():
        begun.set()
        end.wait(60)

    worker.ask("a", deaf)
    assert begun.wait(30)
    before = time.monotonic()
    assert not worker.stop(0.1)
    assert time.monotonic() - before < 30
    end.set()
    assert worker.stop(30)


def test_after_a_stop_no_bar_begins(worker):
    finished(worker)
    worker.stop(30)
    with pytest.raises(StoppedError), worker.reporter.bar("work", 3):
        raise AssertionError


def test_a_worker_without_jobs_stops():
    assert Worker().stop(0)
