"""Training on candidates between passes: the same certificate, fewer passes."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags
from lapsvm.errors import InputError
from lapsvm.latent import HingeRisk, LatentProblem, PassCounts, RankRisk, StructuralProblem, fit_many, fit_paths
from lapsvm.latent.scheduling.pool import Pool, WindowRequest

SIZE, COUNT = 24, 3  # windows of a bag, and parts; small enough for candidates to be worth while


def planted(seed=0, n_bags=40, dim=6, shift=2.5, size=SIZE, dtype=np.float64, threads=1):
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    places = rng.integers(size, size=n_bags)
    positives = np.flatnonzero(y > 0)
    windows[positives, places[positives], 0] += shift
    return Bags(windows.reshape(-1, dim).astype(dtype), np.arange(n_bags + 1) * size, threads=threads), y, places


def on_candidates(problem, bags, **options):
    return fit_many([problem], bags, candidates=COUNT, **options)[0]


def plain(problem, bags):
    return fit_many([problem], bags, candidates=0)[0]


def objective_over_all(problem, bags, found, top):
    """Return the objective at the solution's weights, over all windows: positives by the mean of their `top` best."""
    labels = np.asarray(problem.y)
    w = np.append(found.coef, found.intercept)
    scores = np.sort(bags.score_windows(found.coef).reshape(len(labels), -1))
    best = np.where(labels > 0, scores[:, -top:].mean(axis=1), scores[:, -1]) + found.intercept
    offset, coefficients = problem.risk.violation(best[labels != 0], labels[labels != 0])
    return 0.5 * w @ w + problem.C * (offset - coefficients @ best[labels != 0])


@pytest.mark.parametrize("risk", [RankRisk("ap"), RankRisk("zero_one"), HingeRisk(2.0)], ids=["ap", "0-1", "hinge"])
@pytest.mark.parametrize("C", [0.3, 30.0])
@pytest.mark.parametrize("seed", range(3))
def test_with_the_positives_windows_known_the_objective_is_that_of_the_plain_solver(risk, C, seed):
    bags, y, places = planted(seed)
    problem = LatentProblem(y, risk=risk, C=C, fixed_windows=np.where(y > 0, places, -1))
    found, expected = on_candidates(problem, bags), plain(problem, bags)
    assert found.converged
    assert abs(found.objective - expected.objective) <= problem.tol * expected.objective
    assert found.dual <= expected.objective
    assert expected.dual <= found.objective


@pytest.mark.parametrize(
    ("options", "top"), [({}, 1), ({"top": 3}, 3), ({"top": 0.2}, 5), ({"init": "random"}, 1)], ids=str
)
@pytest.mark.parametrize("risk", [RankRisk("ap"), HingeRisk(2.0)], ids=["ap", "hinge"])
def test_the_end_is_certified_over_all_windows_and_no_worse_than_the_plain_solvers(options, top, risk):
    bags, y, _ = planted(1)
    problem = LatentProblem(y, risk=risk, C=10.0, fit_intercept=isinstance(risk, HingeRisk), **options)
    found = on_candidates(problem, bags)
    assert found.converged
    over_all = objective_over_all(problem, bags, found, top)
    # the windows that would follow are those of a further step, which falls by less than the tolerance
    assert (1 - 3 * problem.tol) * found.objective <= over_all <= found.objective * (1 + 1e-9)
    if top == 1:
        fixed = replace(problem, fixed_windows=np.where(y > 0, found.windows, -1), init="mean")
        minimum = plain(fixed, bags)
        assert minimum.dual <= found.objective
        assert found.objective <= minimum.objective * (1 + 3 * problem.tol)
    assert found.objective <= plain(problem, bags).objective * 1.003


def test_passes_are_few_and_counted():
    bags, y, _ = planted(2, n_bags=90, dim=30, shift=1.5)
    problem, pass_counts = LatentProblem(y, C=100.0), PassCounts()
    seen = []

    class CountedBags(Bags):
        def best(self, weights, **options):
            seen.append(np.atleast_2d(np.transpose(weights)).shape[0])
            return super().best(weights, **options)

    counted = CountedBags(bags._store.array, bags.offsets)
    found = on_candidates(problem, counted, pass_counts=pass_counts)
    assert len(seen) == found.n_passes == pass_counts.passes
    assert sum(seen) == pass_counts.vectors
    assert found.n_candidate_calls == pass_counts.candidate_calls > 0
    assert pass_counts.bytes_read >= pass_counts.passes * bags._store.array.nbytes
    assert 0 < pass_counts.peak_candidate_bytes <= bags._store.array.nbytes / 2
    assert 3 * found.n_passes < plain(problem, bags).n_passes


def test_a_record_says_whether_it_holds_for_all_windows():
    bags, y, _ = planted(3)
    told = []
    found = on_candidates(LatentProblem(y, C=30.0), bags, progress=lambda place, record: told.append((place, record)))
    assert [record for _, record in told] == found.history
    assert found.history[-1]["certified"]
    assert not all(record["certified"] for record in found.history)
    proofs = [record["passes"] for record in found.history if record["certified"]]
    assert proofs == list(range(2, found.n_passes + 1))  # the first pass chooses the first windows
    assert found.history[-1]["objective"] == found.objective
    assert all(record["certified"] for record in plain(LatentProblem(y, C=30.0), bags).history)


def mixed(y, places):
    known = np.where(np.arange(len(y)) % 4 == 0, places, -1)
    return [
        LatentProblem(y, C=10.0),
        LatentProblem(y, C=10.0, trim=0.2),
        StructuralProblem(y, C=10.0),
        LatentProblem(np.where(np.arange(len(y)) % 5 == 0, 0, y), C=1.0, fixed_windows=known),
        LatentProblem(-y, risk=HingeRisk(), C=1.0, fit_intercept=True, top=2),
        LatentProblem(y, C=3.0, init=np.where(y > 0, places, 0)),
    ]


def test_all_kinds_of_problems_stand_side_by_side_as_alone():
    bags, y, places = planted(5)
    problems = mixed(y, places)
    together = fit_many(problems, bags, candidates=COUNT)
    for problem, found in zip(problems, together, strict=True):
        alone = fit_many([problem], bags, candidates=COUNT)[0]
        assert found.converged
        assert np.allclose(found.coef, alone.coef, rtol=0, atol=1e-9)
        assert np.array_equal(found.windows, alone.windows)
        assert found.n_passes == alone.n_passes


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_threads_do_not_change_the_solution(dtype, monkeypatch):
    monkeypatch.setattr("lapsvm.bags.passes.WORTH_THREADS", 0)
    monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", 40)
    (one, y, places), (three, _, _) = (planted(5, dtype=dtype, threads=threads) for threads in (1, 3))
    tallies = PassCounts(), PassCounts()
    for first, second in zip(
        fit_many(mixed(y, places), one, candidates=COUNT, pass_counts=tallies[0]),
        fit_many(mixed(y, places), three, candidates=COUNT, pass_counts=tallies[1]),
        strict=True,
    ):
        assert np.array_equal(first.coef, second.coef)
        assert first.history == second.history
    assert tallies[0] == tallies[1]


def test_windows_left_out_stay_out():
    bags, y, places = planted(6)
    out = np.zeros((bags.n_bags, SIZE), dtype=np.bool_)
    out[:, :8] = True  # a whole part of each bag
    out[np.arange(bags.n_bags), (places + 1) % SIZE] = True
    left = bags.excluding(out.ravel())
    for init in ("mean", SIZE - 1 - np.argmin(out[:, ::-1], axis=1)):
        found = on_candidates(LatentProblem(y, C=10.0, init=init), left)
        assert found.converged
        assert not out[np.arange(bags.n_bags), found.windows].any()
        features = bags._store.array.reshape(-1, SIZE, 6)
        kept = Bags.from_arrays([own[~mask] for own, mask in zip(features, out, strict=True)])
        numbers = np.cumsum(~out, axis=1)[np.arange(bags.n_bags), found.windows] - 1
        fixed = LatentProblem(y, C=10.0, fixed_windows=np.where(y > 0, numbers, -1))
        assert found.objective <= plain(fixed, kept).objective * 1.003


def test_a_negatives_excluded_windows_make_no_plane_at_zero():
    # window 0 of every negative would score high, and does not compete
    bags, y, places = planted(7, size=4)
    features = bags._store.array.reshape(-1, 4, 6).copy()
    features[y < 0, 0] = 5.0
    out = np.zeros((bags.n_bags, 4), dtype=np.bool_)
    out[y < 0, 0] = True
    some = Bags(features.reshape(-1, 6), bags.offsets).excluding(out.ravel())
    known = np.where(y > 0, places, -1)
    kept = Bags.from_arrays([own[~mask] for own, mask in zip(features, out, strict=True)])
    init = np.where(y > 0, places, 0)
    found, expected = (plain(LatentProblem(y, init=init, fixed_windows=known), one) for one in (some, kept))
    assert abs(found.objective - expected.objective) <= 1e-3 * expected.objective


def test_a_path_keeps_its_candidates():
    bags, y, _ = planted(8, n_bags=60, dim=20)
    pass_counts = PassCounts()
    path = fit_paths([LatentProblem(y)], [[100.0, 10.0, 1.0]], bags, candidates=COUNT, pass_counts=pass_counts)[0]
    assert all(found.converged for found in path)
    assert pass_counts.passes == sum(found.n_passes for found in path)
    assert path[1].n_passes <= on_candidates(LatentProblem(y, C=10.0), bags).n_passes


def test_small_bags_are_trained_by_the_plain_solver():
    bags, y, _ = planted(9)
    found = fit_many([LatentProblem(y)], bags, candidates=SIZE // 4 + 1)[0]
    assert found.n_candidate_calls == 0
    assert np.array_equal(found.coef, plain(LatentProblem(y), bags).coef)


def test_stopping_early_is_told():
    bags, y, _ = planted(10, shift=0.5)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 outer steps were not enough"):
        assert not on_candidates(LatentProblem(y, C=100.0, tol=1e-6, max_iter=2), bags).converged
    with pytest.warns(ConvergenceWarning, match="max_calls=3 calls were not enough"):
        assert not on_candidates(LatentProblem(y, C=100.0, tol=1e-6, max_calls=3), bags).converged


@pytest.mark.parametrize("candidates", [-1, 1.5, "many"])
def test_a_number_of_candidates_that_is_none_is_refused(candidates):
    bags, y, _ = planted()
    with pytest.raises(InputError, match="candidates must be"):
        fit_many([LatentProblem(y)], bags, candidates=candidates)


def test_a_pools_answers_are_those_of_the_bags_and_of_their_parts():
    bags, _, _ = planted(11)
    weights = np.random.default_rng(0).normal(size=(6, 3))
    whole = bags.best(weights)
    scores = bags._store.array @ weights
    for column, answer in enumerate(Pool(bags, COUNT).best(weights)):
        assert np.array_equal(answer.index, whole.index[:, column])
        assert np.array_equal(answer.score, whole.score[:, column])
        own = scores[:, column].reshape(-1, COUNT, SIZE // COUNT)
        expected = np.sort(own.argmax(axis=2) + np.arange(COUNT) * (SIZE // COUNT), axis=1)
        assert np.array_equal(np.sort(answer.others, axis=1), expected)


def test_a_pool_holds_what_is_wished_for_and_nothing_else():
    bags, _, _ = planted(12)
    pool, rng, weights = Pool(bags, COUNT), np.random.default_rng(0), np.random.default_rng(1).normal(size=6)
    for _ in range(30):
        wishes = [rng.choice(bags.n_windows, rng.integers(1, 80), replace=False) for _ in range(3)]
        for owner, needed in enumerate(wishes):
            pool.request(owner, WindowRequest(needed, np.empty((0, 0), dtype=np.intp)))
        pool.update()
        assert pool.n_rows == len(np.unique(np.concatenate(wishes)))
        for owner, needed in enumerate(wishes):
            assert np.array_equal(pool.available(owner), np.sort(needed))
            addresses, rows = pool.addresses(needed), bags._store.array[needed]
            assert np.allclose(pool.scores(weights, addresses), rows @ weights, rtol=0, atol=1e-12)
            total = pool.weighted_sum(np.arange(len(needed)), addresses)
            assert np.allclose(total, np.arange(len(needed)) @ rows, rtol=0, atol=1e-9)
    pool.release(0)
    pool.update()
    assert pool.n_rows == len(np.unique(np.concatenate(wishes[1:])))


def test_where_memory_is_short_the_better_half_of_the_spare_windows_is_held():
    bags, _, _ = planted(13)
    spare = np.arange(bags.n_bags)[:, None] * SIZE + np.arange(8)
    needed = np.arange(bags.n_bags) * SIZE
    for rows, held in ((400, 8), (200, 4), (100, 2), (10, 1)):
        pool = Pool(bags, COUNT, most_bytes=rows * 6 * 8)
        pool.request("one", WindowRequest(needed, spare))
        pool.update()
        assert np.array_equal(pool.available("one"), spare[:, :held].ravel())
    found = on_candidates(LatentProblem(planted(13)[1], C=10.0), bags)
    assert found.converged


def test_a_pool_that_grows_a_little_keeps_its_memory(monkeypatch):
    monkeypatch.setattr("lapsvm.latent.scheduling.pool.BATCH_BYTES", 7 * 6 * 8)  # of seven windows
    bags, _, _ = planted(15)
    pool, memory = Pool(bags, COUNT), []
    for count in (40, 60, 80, 81):
        pool.request("one", WindowRequest(np.arange(count), np.empty((0, 0), dtype=np.intp)))
        pool.update()
        memory.append(pool._rows)
        assert np.array_equal(pool._rows[pool._slots[:count]], bags._store.array[:count])
    assert memory[0] is memory[1] is memory[2]
    assert memory[3] is not memory[2]


def test_memory_for_the_needed_windows_alone_still_ends_certified(monkeypatch):
    bags, y, _ = planted(14)
    monkeypatch.setattr("lapsvm.latent.scheduling.pool._MOST_SHARE", 0.0)
    problem = LatentProblem(y, C=10.0)
    assert on_candidates(problem, bags).converged


def test_the_best_sections_give_candidates_at_first_and_later_all(monkeypatch):
    # twelve sections of two windows
    bags, y, _ = planted(15, n_bags=60, dim=20, shift=0.5)
    monkeypatch.setattr("lapsvm.latent.scheduling.candidates.WORTH_CANDIDATES", 1)
    monkeypatch.setattr("lapsvm.latent.scheduling.candidates.MANY_WINDOWS", 0)
    asked = []

    class SpiedPool(Pool):
        def request(self, owner, request):
            asked.append(request.optional)
            super().request(owner, request)

    monkeypatch.setattr("lapsvm.latent.scheduling.candidates.Pool", SpiedPool)
    found = fit_many([LatentProblem(y, C=100.0)], bags, candidates=12)[0]
    assert found.converged
    assert len(asked) == found.n_passes > 4
    assert [optional.shape for optional in asked] == [(60, 4)] * 3 + [(60, 12)] * (found.n_passes - 3)
