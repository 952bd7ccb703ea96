"""Passes by Triton's kernels: on a GPU, or where there is none in Triton's interpreter, beside loops and processors."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.bags.selection import Selection
from lapsvm.bags.stores import gpu as on_gpu
from lapsvm.bags.stores import gpu_plain
from lapsvm.bags.stores.gpu_weights import DeviceWeights
from lapsvm.bags.stores.gpu_windows import has_kernels
from lapsvm.bfloat16 import BFLOAT16, narrowed, type_name, widened
from lapsvm.errors import NotFiniteError
from lapsvm.testing.bags import BagsLaws, best_windows

torch = pytest.importorskip("torch", reason="torch is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
with pytest.MonkeyPatch.context() as patched:
    if DEVICE == "cpu":  # Triton reads it when it is imported
        patched.setenv("TRITON_INTERPRET", "1")
    triton = pytest.importorskip("triton", reason="Triton is not installed")
    if DEVICE == "cpu" and isinstance(triton.language.zeros, triton.JITFunction):
        pytest.skip("there is no GPU, and Triton was imported without its interpreter", allow_module_level=True)
    if DEVICE == "cpu" and triton.__version__ < "3.2":
        pytest.skip("the interpreter of Triton 3.1 does not know NumPy 2.4", allow_module_level=True)
    from lapsvm.bags.stores import gpu_kernels

DTYPES = [np.float16, BFLOAT16, np.float32]
ENGINES = ["kernels", "plain"]


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    if DEVICE == "cpu":
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert has_kernels(DEVICE)


def placed(bags, engine="kernels", limit=1 << 30):
    """Return bags whose windows lie on the device."""
    bags._store.device = on_gpu.GpuStore(bags._store, [(DEVICE, limit)])
    windows = on_device(bags)
    assert windows._with_kernels
    windows._with_kernels = engine == "kernels"
    return bags


def on_device(bags):
    """Return the windows that lie on the one device."""
    return bags._store.device.shares[0]


def equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


class TestHalves(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float16) for array in arrays]))


class TestUpperHalves(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([narrowed(array, BFLOAT16) for array in arrays]))


class TestSingles(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float32) for array in arrays]))


class TestHalfOfThemOnTheDevice(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float32) for array in arrays]), limit=164 * 20)


def ragged(dtype, sizes=(1, 128, 40, 129, 700, 2, 2050, 1), dim=75, seed=0):
    rng = np.random.default_rng(seed)
    return [narrowed(rng.normal(size=(size, dim)).astype(np.float32), dtype) for size in sizes]


@pytest.mark.parametrize("dtype", DTYPES, ids=type_name)
@pytest.mark.parametrize("k", [1, 3, 20, 60, 130])
def test_best_windows_are_those_of_a_slow_loop(dtype, k):
    arrays, weights = ragged(dtype), np.random.default_rng(1).normal(size=(75, k))
    found = placed(Bags.from_arrays(arrays)).best(weights)
    expected = best_windows([widened(array) for array in arrays], weights)
    np.testing.assert_array_equal(found.index, expected.index)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-12)
    equal(found, Bags.from_arrays(arrays).best(weights))


@pytest.mark.parametrize("dtype", DTYPES, ids=type_name)
@pytest.mark.parametrize("dim", [1, 8, 31, 33, 64, 200])
def test_any_number_of_features(dtype, dim):
    arrays, weights = ragged(dtype, (3, 200), dim), np.random.default_rng(1).normal(size=(dim, 2))
    equal(placed(Bags.from_arrays(arrays)).best(weights), Bags.from_arrays(arrays).best(weights))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=type_name)
def test_one_bag_of_one_window(dtype, engine):
    arrays, weights = ragged(dtype, (1,)), -np.ones((75, 3))
    found = placed(Bags.from_arrays(arrays), engine).best(weights)
    assert (found.index == 0).all()
    equal(found, Bags.from_arrays(arrays).best(weights))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("copies", [2, 5, 12, 600])
def test_of_equal_windows_the_first_one_wins_also_across_sections(copies, engine):
    arrays = ragged(np.float16, (700, 4500))
    weights = np.random.default_rng(1).normal(size=(75, 3))
    for array in arrays:
        places = np.random.default_rng(copies).choice(np.arange(37, len(array)), copies, replace=False)
        array[places] = 3 * np.sign(weights[:, 0]).astype(np.float16)  # more than SLOTS of them stay open at first
    found = placed(Bags.from_arrays(arrays), engine).best(weights)
    equal(found, Bags.from_arrays(arrays).best(weights))
    assert (found.index[:, 0] >= 37).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=type_name)
@pytest.mark.parametrize("near", [3, 40])
def test_near_ties_are_settled_as_processors_settle_them(dtype, near, engine):
    """The best windows differ by one bit of a feature whose weight is far below the rounding of a float32 sum."""
    rng = np.random.default_rng(near)
    weights = np.abs(rng.normal(size=(75, 2)))
    weights[:40] *= 1e-9
    arrays = ragged(dtype, (300, 300, 2500))
    for array in arrays:
        places = rng.choice(len(array), near, replace=False)
        rows = np.full((near, 75), 4.0, dtype=np.float32)
        rows[:, :40] *= 1 + rng.integers(0, 8, (near, 40)) / 128
        array[places] = narrowed(rows, dtype)
    found = placed(Bags.from_arrays(arrays), engine).best(weights)
    equal(found, Bags.from_arrays(arrays).best(weights))
    expected = best_windows([widened(array) for array in arrays], weights)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-14)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=type_name)
def test_excluded_windows_never_win(dtype, engine):
    rng = np.random.default_rng(2)
    arrays, weights = ragged(dtype), rng.normal(size=(75, 5))
    mask = rng.random(sum(map(len, arrays))) < 0.7
    offsets = np.cumsum([0, *map(len, arrays)])
    mask[offsets[1:] - 1] = False
    bags = placed(Bags.from_arrays(arrays), engine).excluding(mask)
    found, expected = bags.best(weights), Bags.from_arrays(arrays).excluding(mask).best(weights)
    equal(found, expected)
    assert not mask[(found.index + offsets[:-1, None]).reshape(-1)].any()
    kept = bags.subset([6, 0, 4])
    equal(kept.best(weights), [answer[[6, 0, 4]] for answer in expected])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("start", [0, 3])
def test_the_first_window_stands_for_a_bag_in_which_none_competes(engine, start):
    """Sections of a picture of which all windows are excluded, as `subdivided` makes them."""
    bags = placed(Bags.from_arrays(ragged(np.float16, (10, 200, 5))), engine)
    starts, stops = np.array([start, 10, 210]), np.array([10, 210, 215])
    excluded = np.zeros(int((stops - starts).sum()), dtype=np.bool_)
    excluded[: 10 - start] = True
    weights = np.random.default_rng(0).normal(size=(75, 2))
    device = on_device(bags)
    ((_, (index, score)),) = device.best(Selection(starts, stops, excluded), [range(3)], device.prepared(weights))
    rows = widened(bags._store.array).astype(np.float64)
    assert (index[0] == 0).all()
    np.testing.assert_allclose(score[0], rows[start] @ weights, rtol=1e-12)
    np.testing.assert_array_equal(index[1], (rows[10:210] @ weights).argmax(axis=0))


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_of_zero_take_the_first_window_that_competes(engine):
    arrays, weights = ragged(np.float16, (30, 5, 200)), np.random.default_rng(1).normal(size=(75, 4))
    weights[:, [0, 2]] = 0
    mask = np.zeros(235, dtype=np.bool_)
    mask[[0, 1, 30, 35]] = True
    found = placed(Bags.from_arrays(arrays), engine).excluding(mask).best(weights)
    equal(found, Bags.from_arrays(arrays).excluding(mask).best(weights))
    np.testing.assert_array_equal(found.index[:, 0], [2, 1, 1])
    equal(placed(Bags.from_arrays(arrays), engine).best(0 * weights), (np.zeros((3, 4)), np.zeros((3, 4))))


@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")  # of the interpreter's NumPy
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [BFLOAT16, np.float32], ids=type_name)
def test_sums_beyond_float32_are_compared_in_float64(dtype, engine):
    arrays, weights = ragged(dtype, (200, 90)), np.random.default_rng(1).normal(size=(75, 2))
    arrays = [narrowed(widened(array) * np.float32(1e38 / 4.5), dtype) for array in arrays]
    equal(placed(Bags.from_arrays(arrays), engine).best(weights), Bags.from_arrays(arrays).best(weights))


@pytest.mark.parametrize("engine", ENGINES)
def test_tiny_numbers_underflow_nowhere(engine):
    arrays, weights = ragged(np.float32, (200, 90)), np.random.default_rng(1).normal(size=(75, 2)) * 1e-30
    arrays = [array * np.float32(1e-42) for array in arrays]
    equal(placed(Bags.from_arrays(arrays), engine).best(weights), Bags.from_arrays(arrays).best(weights))


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_beyond_float64_are_refused_and_fewer_do_not_win(engine):
    arrays, weights = ragged(np.float16, (50, 50)), np.full((75, 1), 1.7e308)
    for array in arrays:
        array[:] = 1
        array[7] = 2.0**-8
    equal(placed(Bags.from_arrays(arrays), engine).best(weights), Bags.from_arrays(arrays).best(weights))
    for array in arrays:
        array[:] = 60_000
    with pytest.raises(NotFiniteError, match="scores of windows must be finite, got inf"):
        placed(Bags.from_arrays(arrays), engine).best(weights)


@pytest.mark.parametrize("dtype", [*DTYPES, np.float64], ids=type_name)
@pytest.mark.parametrize("dim", [1, 31, 32, 75])
def test_the_plain_twin_adds_as_the_processor_does(dtype, dim):
    (array,) = ragged(dtype, (300,), dim)
    weights = np.random.default_rng(3).normal(size=(2, dim))
    wide = torch.from_numpy(widened(array)).to(DEVICE)
    rows, q = (torch.from_numpy(np.arange(300) * factor % most).to(DEVICE) for factor, most in ((7, 300), (1, 2)))
    found = gpu_plain.float64_scores(torch, wide, rows, torch.from_numpy(weights).to(DEVICE), q)
    expected = Bags.from_arrays([array]).score_windows(weights.T)
    np.testing.assert_array_equal(found.cpu().numpy(), expected[rows.cpu().numpy(), q.cpu().numpy()])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=type_name)
@pytest.mark.parametrize("dim", [1, 31, 32, 75])
def test_chosen_windows_have_the_scores_of_a_processor(dtype, dim, engine):
    (array,), weights = ragged(dtype, (300,), dim), np.random.default_rng(3).normal(size=dim)
    device, rows = placed(Bags.from_arrays([array]), engine)._store.device, np.arange(77) * 7 % 300
    np.testing.assert_array_equal(device.scores(rows, weights), Bags.from_arrays([array]).score_windows(weights)[rows])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=type_name)
@pytest.mark.parametrize("dim", [1, 75, 300])
def test_means_are_added_as_a_processor_adds(dtype, dim, engine):
    arrays = ragged(dtype, (1, 40, 129, 2, 3), dim)
    bags, here = placed(Bags.from_arrays(arrays), engine), Bags.from_arrays(arrays)
    np.testing.assert_array_equal(bags.means(), here.means())
    np.testing.assert_array_equal(bags.means([4, 2, 2]), here.means([4, 2, 2]))
    only = on_device(bags).means(bags._selection, [range(1, 3)])
    np.testing.assert_array_equal([found for _, (part,) in only for found in part], here.means([1, 2]))


@pytest.mark.parametrize("seed", range(4))
def test_sections_hold_every_window_once(seed):
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([rng.integers(1, 300, 40), rng.integers(1, 100_000, 5), [1, 127, 128, 129, 2048, 2049]])
    starts = rng.integers(0, 10**12, len(sizes))
    places = np.cumsum(sizes) - sizes
    table, ends = gpu_kernels.cut_into_sections(starts, sizes, places)
    owner = np.repeat(np.arange(len(sizes)), np.diff([0, *ends]))
    first, count, inside, place = table.T
    np.testing.assert_array_equal(np.bincount(owner, count), sizes)
    np.testing.assert_array_equal(inside, np.concatenate([[0], np.where(np.diff(owner), 0, (inside + count)[:-1])]))
    np.testing.assert_array_equal(first - inside, starts[owner])
    np.testing.assert_array_equal(place - inside, places[owner])
    assert 0 < count.min() <= count.max() <= gpu_kernels.SECTION_ROWS
    assert (inside % 128 == 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=type_name)
def test_nothing_stays_open_where_windows_are_drawn(dtype):
    """The kernels settle almost all on their own: what they leave open costs another pass over its bag."""
    arrays, weights = ragged(dtype), np.random.default_rng(1).normal(size=(75, 20))
    bags = placed(Bags.from_arrays(arrays))
    device, selection = on_device(bags), bags._selection
    sections = gpu_kernels.Sections.of(selection, range(bags.n_bags), torch, DEVICE)
    columns = DeviceWeights.of(weights, dtype).on(torch, DEVICE)
    index, score = gpu_kernels.best_windows(torch, device._held, device._lengths, sections, columns)
    equal((index.cpu().numpy(), score.cpu().numpy()), Bags.from_arrays(arrays).best(weights))


@pytest.mark.parametrize("dtype", DTYPES, ids=type_name)
@pytest.mark.parametrize("kind", ["normal", "one sign", "one large"])
def test_scores_lie_within_the_bound(dtype, kind):
    """Bags of one window each: the best score is the window's."""
    rng = np.random.default_rng(4)
    rows, weights = rng.normal(size=(90, 300)), rng.normal(size=(300, 20)) * 10.0 ** rng.integers(-3, 3, (300, 20))
    if kind == "one sign":
        rows, weights = np.abs(rows), np.abs(weights)
    if kind == "one large":
        rows[:, 0], weights[0] = 100 * np.abs(rows[:, 0]), 1e4
    array = narrowed(rows.astype(np.float32), dtype)
    bags = placed(Bags(array, np.arange(91)))
    device, prepared = on_device(bags), DeviceWeights.of(weights, dtype)
    sections = gpu_kernels.Sections.of(bags._selection, range(90), torch, DEVICE)
    kept = gpu_kernels.candidates(torch, device._held, device._lengths, sections, prepared.on(torch, DEVICE))
    scale = np.linalg.norm(widened(prepared.parts).astype(np.float64).sum(axis=0), axis=1)[:20]
    scale /= np.linalg.norm(weights, axis=0)
    exact = widened(array).astype(np.float64) @ (weights * 2.0 ** np.round(np.log2(scale)))
    bound = np.linalg.norm(widened(array).astype(np.float64), axis=1)[:, None] * prepared.rounding
    assert (np.abs(kept.top.cpu().numpy() - exact) <= bound).all()
    np.testing.assert_array_equal(kept.counts.cpu().numpy(), 1)
    np.testing.assert_array_equal(kept.rows[:, :, 0].cpu().numpy(), 0)
