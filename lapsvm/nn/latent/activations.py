"""What the frozen lower part of a network computes of pictures, once, on disk."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float64
from lapsvm.errors import InputError, ModelFileError, NotFiniteError, SettingsError, ShapeError, StageError
from lapsvm.features.extractors.picture import clip_boxes
from lapsvm.files import NOT_PARSED, is_named, read_regular, remove_stale, write_atomically
from lapsvm.model_files import read_model, write_model
from lapsvm.nn.rank_op import to_array

Tensor = torch.Tensor
Picture = tuple[Tensor, ArrayLike, tuple[int, int]]

_FORMAT, _VERSION, _LIST = "lapsvm activations", 1, "activations.json"
_DTYPES = {"float16": np.float16, "float32": np.float32}


class Activation(NamedTuple):
    """One picture: the lower part's output (c, h, w) as float32, and its windows (n, 4) as shares of its sides."""

    values: Tensor
    windows: Float64


class ActivationCache(Sequence[Activation]):
    """The activations of pictures in a folder, as `cache_activations` has written them; each is read when asked for.

    Parameters
    ----------
    folder : str or Path

    Attributes
    ----------
    fingerprint : str
        Hash of the pictures, the windows, the name of the network and the type of number.

    Raises
    ------
    StageError
        If the folder holds no finished activations.
    ModelFileError
        If the list of activations is damaged; also when a damaged activation is read.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not is_named(self.folder / _LIST):
            raise StageError(f"folder {folder} holds no finished activations; call cache_activations first.")
        try:
            self._keys = _as_keys(json.loads(read_regular(self.folder / _LIST, "list"))["keys"])
        except (*NOT_PARSED, KeyError, TypeError):
            raise ModelFileError(f"list {self.folder / _LIST} is damaged; call cache_activations again.") from None
        self.fingerprint = blake2b(" ".join(self._keys).encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self._keys)

    def __getitem__(self, number: Any) -> Any:
        """Return the activation of a picture; slices are not supported."""
        position = range(len(self))[number]
        description, tensors = read_model(_file(self.folder, position), _FORMAT, _VERSION)
        if description.get("key") != self._keys[position]:
            raise ModelFileError(f"activation {_file(self.folder, position)} must be of picture {position}.")
        return Activation(torch.from_numpy(tensors["values"].astype(np.float32)), tensors["windows"])


def cache_activations(
    folder: str | Path,
    lower: Callable[[Tensor], Tensor],
    pictures: Iterable[Picture],
    *,
    name: str,
    dtype: str = "float16",
    report: Callable[[str], None] | None = None,
) -> ActivationCache:
    """Compute the output of a network's frozen lower part for every picture, and keep it in a folder.

    Files that are there already are kept, so a killed call goes on where it was.

    Parameters
    ----------
    folder : str or Path
        Made if it does not exist.
    lower : callable
        Maps a picture's input (1, 3, h, w) to activations (1, c, h', w'); called without gradients.
    pictures : iterable of tuples (input, boxes, size)
        The network's input (3, h, w), boxes (n, 4) as x1, y1, x2, y2 in pixels of the picture, and the picture's
        height and width. Boxes are clipped to the picture.
    name : str
        Name of the lower part with its weights: it is refused where the folder holds activations of another name.
    dtype : "float16" or "float32", default="float16"
        Type of the numbers on disk.
    report : callable, optional
        Receives a line of text after every hundredth picture and after the last.

    Returns
    -------
    ActivationCache

    Raises
    ------
    InputError, ShapeError, NotFiniteError
        If an argument, a picture, or what `lower` returns breaks its rule.
    SettingsError
        If the folder holds activations of other pictures, windows, names or types.
    WriteError
        If the system fails to write.
    """
    if dtype not in _DTYPES:
        raise InputError(f"dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    remove_stale(folder, lambda name: name == _LIST or re.fullmatch(r"\d{7,}\.safetensors", name) is not None)
    keys: list[str] = []
    for inputs, boxes, (height, width) in pictures:
        windows = clip_boxes(boxes, height, width) / np.array([width, height, width, height])
        key = _key(name, dtype, inputs, windows)
        path = _file(folder, len(keys))
        if not is_named(path) or not _is_current(path, key):
            values = _computed(lower, inputs, len(keys), dtype)
            tensors = {"values": values, "windows": windows}
            write_model(path, {"format": _FORMAT, "version": _VERSION, "key": key}, tensors, "activation")
        keys.append(key)
        if report is not None and len(keys) % 100 == 0:
            report(f"activations: {len(keys)} pictures")
    if not keys:
        raise InputError("pictures must hold at least one picture, got none.")
    write_atomically(folder / _LIST, json.dumps({"keys": keys}).encode())
    if report is not None:
        report(f"activations: {len(keys)} pictures, all done")
    return ActivationCache(folder)


def _as_keys(value: Any) -> list[str]:
    """Return a list of keys; raise TypeError if it is anything else."""
    if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        raise TypeError("keys must be a list of texts")
    return value


def _file(folder: Path, number: int) -> Path:
    """Return the file of a picture."""
    return folder / f"{number:07d}.safetensors"


def _key(name: str, dtype: str, inputs: Tensor, windows: Float64) -> str:
    """Return the hash of what an activation depends on."""
    kept, bfloat16 = inputs.detach().cpu(), inputs.dtype == torch.bfloat16  # a type that NumPy does not have
    pixels = np.ascontiguousarray((kept.view(torch.int16) if bfloat16 else kept).numpy())
    kind = "bfloat16" if bfloat16 else pixels.dtype.str
    digest = blake2b(f"{name}\n{dtype}\n{kind} {pixels.shape} {windows.shape}\n".encode(), digest_size=16)
    digest.update(pixels.tobytes())
    digest.update(windows.tobytes())
    return digest.hexdigest()


def _is_current(path: Path, key: str) -> bool:
    """Return whether a file is intact; raise SettingsError if it is intact and of something else."""
    try:
        description, _ = read_model(path, _FORMAT, _VERSION)
    except ModelFileError:
        return False
    if description.get("key") != key:
        raise SettingsError(
            f"activation {path} must be of the same picture, windows, name and dtype, got another; choose a new folder."
        )
    return True


def _computed(lower: Callable[[Tensor], Tensor], inputs: Tensor, number: int, dtype: str) -> Array:
    """Return the activations of a picture as they are kept."""
    with torch.no_grad():
        values = lower(inputs[None])
    if values.ndim != 4 or len(values) != 1:
        raise ShapeError(f"lower must return shape (1, c, h, w), got {tuple(values.shape)} for picture {number}.")
    with np.errstate(over="ignore"):
        kept = to_array("activations", values[0]).astype(_DTYPES[dtype])
    if not np.isfinite(kept).all():
        raise NotFiniteError(f"activations of picture {number} must be finite as {dtype}, got NaN or infinity.")
    return np.asarray(kept)
