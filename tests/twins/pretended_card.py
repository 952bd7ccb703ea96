"""A plugin for pytest that pretends torch sees GPUs (``python -m pytest -p tests.twins.pretended_card PATH``).

The numbers of a pretended GPU's tensors lie in the processor's memory, and torch's own operations compute with them.
But as on a real one, an operation on tensors of two devices is an error, and NumPy cannot read a tensor that has not
been copied back. So code that was only ever run by a processor shows here what a GPU would refuse. Not pretended:
speed, memory that runs out, autograd, streams (each operation ends before the next), other roundings.

``PRETENDED_CARDS`` sets how many there are, 1 by default. Triton's interpreter takes the tensors, too.
"""

import os
import threading
from collections import Counter
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map

CPU = torch.device("cpu")
MEMORY = 64 << 30
COUNTS = Counter()
"""Operations on the cards, and how often the processor waited for a number or a copy of theirs."""

_here = threading.local()


class CardTensor(torch.Tensor):
    """A tensor of a pretended GPU; `numbers` is a tensor of the processor's, `card` the device."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, numbers, card):
        with torch._C._DisableTorchDispatch(), _disable_current_modes():
            shape = torch.empty_strided(numbers.size(), numbers.stride(), dtype=numbers.dtype, device="meta")
        return torch.Tensor._make_subclass(cls, shape, False, dispatch_device=True, device_for_backend_keys=card)

    def __init__(self, numbers, card):
        self.numbers, self.card = numbers, card

    def __repr__(self, *, tensor_contents=None):
        return f"CardTensor({self.numbers}, {self.card})"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _computed(function, args, kwargs or {})

    # What follows asks a device that is not there, before any operation that could be caught.

    def __getitem__(self, places):
        return CardTensor(self.numbers[_indices(places)], self.card)

    def __setitem__(self, places, values):
        if isinstance(values, torch.Tensor) and values.ndim and not isinstance(values, CardTensor):
            raise RuntimeError(f"values of {values.device} cannot be written into a tensor of {self.card}")
        self.numbers[_indices(places)] = _numbers(values)

    def __invert__(self):
        return torch.bitwise_not(self)

    def __array__(self, *_):
        self.numpy()

    def numpy(self, **_):
        raise TypeError(f"can't convert {self.card} device type tensor to numpy. Use Tensor.cpu()")

    def cpu(self):
        return self.to(CPU)

    def contiguous(self, memory_format=torch.contiguous_format):
        if self.numbers.is_contiguous(memory_format=memory_format):
            return self
        return self.clone(memory_format=memory_format)


def _numbers(value):
    return value.numbers if isinstance(value, CardTensor) else value


def _indices(places):
    return tuple(map(_numbers, places if isinstance(places, tuple) else (places,)))


def _card(device):
    """Return the device with its number, by default the thread's current one; None for the processor's, or None."""
    device = None if device is None else torch.device(device)
    if device is None or device.type != "cuda":
        return None
    return torch.device("cuda", getattr(_here, "number", 0) if device.index is None else device.index)


def _computed(function, args, kwargs):
    """Return the result of an operation of torch, on the device where it would run."""
    if function is torch.ops.prim.device.default:
        return args[0].card
    name, cards = function._schema.name, _checked(function._schema.name, args, kwargs)
    COUNTS["operations"] += 1
    COUNTS["waits"] += name == "aten::_local_scalar_dense"
    plain = {key: CPU if key == "device" and value is not None else value for key, value in kwargs.items()}
    plain.pop("pin_memory", None)
    result = function(*tree_map(_numbers, args), **tree_map(_numbers, plain))
    if function._schema.is_mutable and isinstance(result, torch.Tensor):
        target = kwargs.get("out", args[0])
        same_shape = not isinstance(target, CardTensor) or target.shape == target.numbers.shape
        return target if same_shape else CardTensor(target.numbers, target.card)
    card = _card(kwargs["device"]) if kwargs.get("device") is not None else next(iter(cards), None)
    return result if card is None else tree_map(lambda one: _placed(one, card), result)


def _placed(value, card):
    return CardTensor(value, card) if isinstance(value, torch.Tensor) else value


def _checked(name, args, kwargs):
    """Return the cards of an operation's tensors; an error if it mixes devices, but for single numbers."""
    tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, torch.Tensor)]
    cards = {tensor.card for tensor in tensors if isinstance(tensor, CardTensor)}
    others = any(tensor.ndim for tensor in tensors if not isinstance(tensor, CardTensor))
    if len(cards) > 1 or (cards and others):
        raise RuntimeError(f"Expected all tensors to be on the same device, but {name} got {cards} and others")
    return cards


class _Cards(TorchDispatchMode):
    """Catches operations that make tensors of a card, in one thread."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = tree_flatten((args, kwargs))[0]
        if (
            any(isinstance(one, CardTensor) for one in tensors)
            or kwargs.get("pin_memory")
            or _card(kwargs.get("device"))
        ):
            return _computed(function, args, kwargs)
        return function(*args, **kwargs)


def _to(self, *args, plain=torch.Tensor.to, **kwargs):
    """Stand in for `Tensor.to`."""
    wanted = [one.device if isinstance(one, torch.Tensor) else one for one in (*args, kwargs.get("device"))]
    device = next((one for one in wanted if isinstance(one, str | torch.device)), None)
    is_there = isinstance(self, CardTensor)
    if not is_there and _card(device) is None:
        return plain(self, *args, **kwargs)
    card = self.card if device is None else _card(device)
    kinds = [one for one in (*args, kwargs.get("dtype")) if isinstance(one, torch.dtype)]
    numbers = _numbers(self).detach()
    cast = plain(numbers, kinds[0] if kinds else numbers.dtype)
    if is_there and card == self.card:
        return self if cast is numbers else CardTensor(cast, card)
    COUNTS["waits"] += card is None
    copy = cast.clone() if cast is numbers else cast
    return copy if card is None else CardTensor(copy, card)


def _copy(self, other, non_blocking=False, plain=torch.Tensor.copy_):
    """Stand in for `Tensor.copy_`."""
    COUNTS["waits"] += isinstance(other, CardTensor) and not isinstance(self, CardTensor)
    plain(_numbers(self), _numbers(other), non_blocking)
    return self


def _nonzero(tensor, *, as_tuple=False, plain=torch.nonzero):
    """Stand in for `torch.nonzero`, which waits for the number of rows."""
    found = plain(_numbers(tensor), as_tuple=as_tuple)
    if not isinstance(tensor, CardTensor):
        return found
    COUNTS["waits"] += 1
    return tree_map(lambda one: _placed(one, tensor.card), found)


@contextmanager
def _current(card):
    before, _here.number = getattr(_here, "number", 0), torch.device(card).index or 0
    try:
        yield
    finally:
        _here.number = before


def _in_every_thread(plain=threading.Thread.run):
    def run(self):
        with _Cards():
            plain(self)

    threading.Thread.run = run


def _interpreted():
    """Give the numbers of tensors to Triton's interpreter."""
    from triton.runtime.interpreter import GridExecutor

    plain = GridExecutor.__call__
    GridExecutor.__call__ = lambda self, *args, **kwargs: plain(
        self, *map(_numbers, args), **tree_map(_numbers, kwargs)
    )


def pytest_configure(config):
    """Let torch see the cards from now on."""
    stream = SimpleNamespace(synchronize=lambda: None)
    for name, value in {
        "_lazy_init": lambda: None, "is_available": lambda: True, "empty_cache": lambda: None, "device": _current,
        "device_count": lambda: int(os.environ.get("PRETENDED_CARDS", "1")),
        "mem_get_info": lambda _=None: (MEMORY,) * 2, "get_device_capability": lambda _=None: (9, 0),
        "get_device_name": lambda _=None: "pretended",
        "Stream": lambda _=None: stream, "stream": lambda _: nullcontext(), "synchronize": lambda _=None: None,
    }.items():  # fmt: skip
        setattr(torch.cuda, name, value)
    torch.Tensor.to, torch.Tensor.copy_, torch.nonzero = _to, _copy, _nonzero
    for name, kind in (("float", torch.float32), ("double", torch.float64), ("half", torch.float16)):
        setattr(torch.Tensor, name, lambda self, kind=kind: self.to(kind))
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    if os.environ.get("TRITON_INTERPRET") == "1":
        _interpreted()
    _in_every_thread()
    _Cards().__enter__()


def pytest_terminal_summary(terminalreporter):
    """Tell the operations that ran there."""
    terminalreporter.write_line(f"pretended GPUs: {COUNTS['operations']:,} operations, {COUNTS['waits']:,} waits")
