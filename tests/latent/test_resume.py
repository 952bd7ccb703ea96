"""A training that was killed continues with what passes had answered, to the same bytes."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.errors import WriteError
from lapsvm.latent import (
    HingeRisk,
    LatentProblem,
    PassCounts,
    ReplayLog,
    StructuralProblem,
    fit_many,
    fit_paths,
)


class KilledError(Exception):
    """Raised in mid-training."""


def planted(seed=0, n_bags=36, size=24, dim=6):
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    windows[np.flatnonzero(y > 0), rng.integers(size, size=(y > 0).sum()), 0] += 2.0
    return Bags(windows.reshape(-1, dim).astype(np.float16), np.arange(n_bags + 1) * size), y


def problems(y):
    return [
        LatentProblem(y, C=30.0),
        LatentProblem(y, C=3.0, top=2),
        LatentProblem(y, risk=HingeRisk(), C=3.0, trim=0.2, fit_intercept=True),
        StructuralProblem(y, C=10.0),
    ]


def alike(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.coef.tobytes() == other.coef.tobytes()
        assert one.windows.tobytes() == other.windows.tobytes()
        assert one.history == other.history


@pytest.mark.parametrize("candidates", [0, 3])
def test_killed_at_any_outer_step_it_ends_in_the_same_bytes(candidates, tmp_path):
    bags, y = planted()
    whole, expected = PassCounts(), fit_many(problems(y), bags, candidates=candidates)
    fit_many(problems(y), bags, candidates=candidates, pass_counts=whole)
    steps = sum(len(found.history) for found in expected)
    for number in range(0, steps, 9):
        told, first, second = [], PassCounts(), PassCounts()

        def kill(place, record, told=told, number=number):
            told.append(record)
            if len(told) > number:
                raise KilledError

        path = tmp_path / f"{number}.answers"
        with ReplayLog(path) as log, pytest.raises(KilledError):
            fit_many(problems(y), bags, kill, candidates=candidates, pass_counts=first, log=log)
        with ReplayLog(path) as log:
            alike(fit_many(problems(y), bags, candidates=candidates, pass_counts=second, log=log), expected)
            assert log.n_replayed == first.passes
        assert first.passes + second.passes == whole.passes


@pytest.mark.parametrize("candidates", [0, 3])
def test_a_log_that_is_cut_or_broken_anywhere_is_used_up_to_there(candidates, tmp_path):
    bags, y = planted(1)
    path, rng = tmp_path / "one.answers", np.random.default_rng(0)
    with ReplayLog(path) as log:
        expected = fit_many(problems(y), bags, candidates=candidates, log=log)
    content = path.read_bytes()
    for place in rng.integers(len(content), size=4):
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]):
            path.write_bytes(damaged)
            with ReplayLog(path) as log:
                alike(fit_many(problems(y), bags, candidates=candidates, log=log), expected)
            assert path.read_bytes() == content


def test_a_whole_log_needs_no_pass_and_the_log_of_other_problems_none_of_it(tmp_path):
    bags, y = planted(2)
    path = tmp_path / "one.answers"
    with ReplayLog(path) as log:
        expected = fit_many(problems(y), bags, candidates=3, log=log)
    again, other = PassCounts(), PassCounts()
    with ReplayLog(path) as log:
        alike(fit_many(problems(y), bags, candidates=3, pass_counts=again, log=log), expected)
    assert again.passes == 0
    with ReplayLog(path) as log:
        alike(
            fit_many(problems(-y), bags, candidates=3, pass_counts=other, log=log),
            fit_many(problems(-y), bags, candidates=3),
        )
    assert other.passes > 0
    log.remove()
    assert not path.exists()


def test_paths_continue_too(tmp_path):
    bags, y = planted(3)
    expected = fit_paths([LatentProblem(y)], [[10.0, 1.0]], bags, candidates=3)
    for _ in range(2):
        pass_counts = PassCounts()
        with ReplayLog(tmp_path / "both.answers") as log:
            found = fit_paths([LatentProblem(y)], [[10.0, 1.0]], bags, candidates=3, pass_counts=pass_counts, log=log)
            alike(found[0], expected[0])
    assert pass_counts.passes == 0


def test_a_log_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(WriteError, match=r"gone/one.answers could not be written: No such file or directory"):
        ReplayLog(tmp_path / "gone" / "one.answers")


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    bags, y = planted()
    with ReplayLog(tmp_path / "one.answers") as log:

        class Full:
            def __getattr__(self, name):
                return getattr(file, name)

            def write(self, content):
                raise OSError(28, "No space left on device")

        file, log._file = log._file, Full()
        with pytest.raises(WriteError, match="could not be written: No space left on device"):
            fit_many(problems(y), bags, log=log)
        log._file = file
