"""The reader of torch's legacy checkpoints: what torch reads, it reads; everything else is one sentence."""

import pickle
import struct
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapsvm.errors import DataError
from lapsvm.features.extractors.efficientnet.checkpoint import read_legacy_checkpoint

torch = pytest.importorskip("torch", reason="torch is not installed")


def saved(state):
    """What torch writes in its legacy format."""
    file = BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def check_equal(found, state):
    assert list(found) == list(state)
    for name, tensor in state.items():
        expected = tensor.numpy()
        assert (found[name].dtype, found[name].shape) == (expected.dtype, expected.shape)
        assert found[name].flags.c_contiguous
        np.testing.assert_array_equal(found[name], expected)


def tensor_of(seed, shape, kind):
    """A tensor whose elements lie in one of several ways in its storage."""
    rng = np.random.default_rng(seed)
    dtype = rng.choice([torch.float32, torch.float64, torch.int64])
    whole = torch.from_numpy(rng.normal(size=(4, *shape)) * 100).to(dtype)
    return {
        "own": whole[0].clone(),
        "offset": whole[2],
        "reversed axes": whole[0].permute(tuple(reversed(range(len(shape))))),
        "every other": whole[::2, ..., ::2] if shape else whole[::2],
        "repeated": whole[:1].expand(3, *shape),
    }[kind]


KINDS = ["own", "offset", "reversed axes", "every other", "repeated"]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.lists(st.integers(0, 4), max_size=4).map(tuple), st.sampled_from(KINDS)),
        max_size=5,
    )
)
def test_what_torch_writes_is_read_as_torch_reads_it(wanted):
    state = {f"layer.{number}": tensor_of(*one) for number, one in enumerate(wanted)}
    check_equal(read_legacy_checkpoint(saved(state)), state)


def test_the_state_of_a_module_is_read_with_its_counts():
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5))
    check_equal(read_legacy_checkpoint(saved(module.state_dict())), module.state_dict())


def test_tensors_that_share_a_storage_are_read():
    whole = torch.arange(12.0)
    state = {"all": whole, "part": whole[3:7], "table": whole.view(3, 4).T}
    check_equal(read_legacy_checkpoint(saved(state)), state)


def test_the_packages_checkpoint_is_read_as_torch_reads_it(checkpoint):
    state = torch.load(BytesIO(checkpoint), weights_only=True)
    assert len(state) == 296
    assert sum(not tensor.is_contiguous() for tensor in state.values()) == 50
    check_equal(read_legacy_checkpoint(checkpoint), state)


class Harmful:
    def __reduce__(self):
        raise_alarm = "import pathlib; pathlib.Path('harmed').touch()"
        return exec, (raise_alarm,)


CONTENT = saved({"a": torch.arange(6.0).view(2, 3).T, "b": torch.ones(6)})  # equal sizes: torch orders by address


def in_place_of_the_state(value):
    """A file whose state dict is replaced by another pickle."""
    file = BytesIO(CONTENT)
    for _ in range(3):
        pickle.load(file)  # noqa: S301 - our own
    begin = CONTENT[: file.tell()]
    return begin + pickle.dumps(value, protocol=2) + pickle.dumps([], protocol=2)


REFUSED = {
    "nothing": (b"", "Ran out of input"),
    "text": (b"no checkpoint", "UnpicklingError"),
    "a zip file": (b"PK\x03\x04" + bytes(50), "UnpicklingError"),
    "a pickle": (pickle.dumps([1, 2], protocol=2) * 5, "TypeError"),
    "code": (in_place_of_the_state({"a": Harmful()}), "names __builtin__ exec, which no state dict needs"),
    "a number": (in_place_of_the_state(3), "AttributeError"),
    "numbers": (in_place_of_the_state({"a": 3}), "AttributeError"),
    "floats": (in_place_of_the_state({"a": 0.5}), "AttributeError"),
    "a storage of another size": (CONTENT[:-32] + struct.pack("<q", 5) + CONTENT[-24:], "its storages"),
}


@pytest.mark.parametrize(("content", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_checkpoint_is_one_sentence_and_runs_nothing(content, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="must be a state dict in torch's legacy format, but gave ") as caught:
        read_legacy_checkpoint(content)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_pickle_cannot_change_what_names_stand_for():
    """A state of the form (None, attributes) is set on the object before it, here on a class."""
    attributes = b"\x80\x02ccollections\nOrderedDict\nN}X\x06\x00\x00\x00valuesNs\x86b."
    begin = in_place_of_the_state(None)
    begin = begin[: -len(pickle.dumps(None, protocol=2) + pickle.dumps([], protocol=2))]
    with pytest.raises(DataError, match="state dict in torch's legacy format"):
        read_legacy_checkpoint(begin + attributes + pickle.dumps([], protocol=2))
    assert len(read_legacy_checkpoint(CONTENT)) == 2


def test_a_file_that_is_cut_short_is_refused():
    for size in range(len(CONTENT)):
        with pytest.raises(DataError):
            read_legacy_checkpoint(CONTENT[:size])


@pytest.mark.parametrize("change", [1, 2, 16, 128, 255])
def test_a_damaged_byte_is_refused_or_read_as_another_value(change):
    """Only the kind of failure that is expected: the file's hash is what finds damage."""
    refused = 0
    for place in range(len(CONTENT)):
        content = bytearray(CONTENT)
        content[place] ^= change
        try:
            found = read_legacy_checkpoint(bytes(content))
        except DataError:
            refused += 1
        else:
            assert all(isinstance(value, np.ndarray) for value in found.values())
    assert refused > len(CONTENT) / 4


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(0, (7,), (1,)), (6, (1,), (1,)), (0, (2, 3), (3, 2)), (0, (2,), (-1,)), (-1, (2,), (1,)), (0, (2, 2), (1,))],
)
def test_a_tensor_outside_of_its_storage_is_refused(offset, shape, strides):
    from lapsvm.features.extractors.efficientnet.checkpoint import _Storage, _View

    with pytest.raises(ValueError, match="strides"):
        _View(_Storage("1", "<f4", 6), offset, shape, strides).of(np.zeros(6, np.float32))
