"""Activations on disk: what the lower part computes, once, whatever happens in between."""

import numpy as np
import pytest

from lapsvm.errors import InputError, ModelFileError, NotFiniteError, SettingsError, ShapeError, StageError

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.nn import ActivationCache, cache_activations  # noqa: E402


class Lower:
    """Means of cells of 4 x 4 pixels; counts its calls and fails at one of them."""

    def __init__(self, fails_at=None):
        self.calls, self.fails_at = 0, fails_at

    def __call__(self, inputs):
        self.calls += 1
        if self.calls == self.fails_at:
            raise KeyboardInterrupt
        return torch.nn.functional.avg_pool2d(inputs, 4)


def make_pictures(n=5, seed=0):
    rng = np.random.default_rng(seed)
    boxes = np.array([[0, 0, 30, 20], [-5, 3, 10, 100], [7.5, 0, 15, 10]])
    return [(torch.tensor(rng.random((3, 8, 12), dtype=np.float32)), boxes, (20, 30)) for _ in range(n)]


@pytest.mark.parametrize(("dtype", "error"), [("float16", 1e-3), ("float32", 0)])
def test_activations_are_what_the_lower_part_returns(tmp_path, dtype, error):
    pictures, lines = make_pictures(), []
    cache = cache_activations(tmp_path / "new" / "x", Lower(), pictures, name="means", dtype=dtype, report=lines.append)
    assert len(cache) == 5
    assert lines == ["activations: 5 pictures, all done"]
    for found, (inputs, _, _) in zip(cache, pictures, strict=True):
        assert found.values.dtype == torch.float32
        assert (found.values - Lower()(inputs[None])[0]).abs().max() <= error
        assert found.windows.tolist() == [[0, 0, 1, 1], [0, 0.15, 1 / 3, 1], [0.25, 0, 0.5, 0.5]]
    assert torch.equal(cache[-1].values, cache[4].values)
    assert ActivationCache(cache.folder).fingerprint == cache.fingerprint


def test_what_is_there_is_not_computed_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        cache_activations(tmp_path, Lower(fails_at=3), make_pictures(), name="means")
    with pytest.raises(StageError, match="holds no finished activations"):
        ActivationCache(tmp_path)
    rest = Lower()
    cache = cache_activations(tmp_path, rest, make_pictures(), name="means")
    assert rest.calls == 3
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "0000001.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelFileError, match=r"0000001\.safetensors is damaged"):
        cache[1]
    again = Lower()
    cache_activations(tmp_path, again, make_pictures(), name="means")
    assert again.calls == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_what_a_kill_during_writing_leaves_is_removed(tmp_path):
    names = [f".{name}.deadbeef.partial" for name in ("0000001.safetensors", "activations.json", "notes")]
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    cache_activations(tmp_path, Lower(), make_pictures(), name="means")
    assert [path.name for path in tmp_path.glob(".*")] == names[2:]


def test_an_activation_in_anothers_place_is_refused(tmp_path):
    cache = cache_activations(tmp_path, Lower(), make_pictures(), name="means")
    (tmp_path / "0000000.safetensors").write_bytes((tmp_path / "0000001.safetensors").read_bytes())
    with pytest.raises(ModelFileError, match="must be of picture 0"):
        cache[0]


@pytest.mark.parametrize("text", ["[", "[]", "{}", '{"keys": 5}', '{"keys": [5]}'])
def test_a_damaged_list_is_named(tmp_path, text):
    (tmp_path / "activations.json").write_text(text)
    with pytest.raises(ModelFileError, match=r"activations\.json is damaged"):
        ActivationCache(tmp_path)


def test_networks_of_bfloat16(tmp_path):
    pictures = [(inputs.bfloat16(), *rest) for inputs, *rest in make_pictures()]
    cache = cache_activations(tmp_path, Lower(), pictures, name="means", dtype="float32")
    for found, (inputs, _, _) in zip(cache, pictures, strict=True):
        assert torch.equal(found.values, Lower()(inputs[None])[0].float())
    others = [(inputs + 1, *rest) for inputs, *rest in pictures]
    with pytest.raises(SettingsError, match="must be of the same picture"):
        cache_activations(tmp_path, Lower(), others, name="means", dtype="float32")


@pytest.mark.parametrize(
    "changed",
    [{"name": "others"}, {"dtype": "float32"}, {"pictures": make_pictures(seed=1)}],
    ids=["name", "type", "pixels"],
)
def test_other_activations_are_not_mixed(tmp_path, changed):
    cache_activations(tmp_path, Lower(), make_pictures(), name="means")
    with pytest.raises(SettingsError, match="must be of the same picture, windows, name and dtype"):
        cache_activations(tmp_path, Lower(), **{"pictures": make_pictures(), "name": "means"} | changed)


@pytest.mark.parametrize(
    ("lower", "pictures", "options", "error", "message"),
    [
        (Lower(), [], {}, InputError, "pictures must hold at least one picture"),
        (Lower(), make_pictures(), {"dtype": "int8"}, InputError, "dtype must be one of float16, float32, got 'int8'"),
        (lambda x: x[0], make_pictures(), {}, ShapeError, r"lower must return shape \(1, c, h, w\), got \(3, 8, 12\)"),
        (lambda x: 1e6 * x, make_pictures(), {}, NotFiniteError, "activations of picture 0 must be finite as float16"),
    ],
    ids=["none", "type", "shape", "overflow"],
)
def test_bad_input_is_one_sentence(tmp_path, lower, pictures, options, error, message):
    with pytest.raises(error, match=message):
        cache_activations(tmp_path, lower, pictures, name="means", **options)
