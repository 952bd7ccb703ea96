"""Features of windows pooled from one feature map: one forward pass per picture, whatever the number of windows.

The picture is resized to a longest side of ``size`` pixels, both sides rounded to multiples of 32 so that the strides
of common backbones divide them (of a transformer's patch), and runs through the network once. A network of fixed size
gets it with its aspect ratio and padding (`letterbox`). A window's features are the exact area mean, over the window's
box in the map, of the map taken as constant inside its cells; by default they are normalised to length 1.

A map's cell depends on its neighbourhood too, and pictures with an object differ from others by their whole scene, so
the mean alone scores a window next to the object as high as one on it. A contrast beta subtracts beta times the same
mean over the window's context, what lies around it; ``context=appended`` appends that mean instead.
docs/reference/features.md measures both.

Several maps of one network may be used at once; each is one block of features.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32
from lapsvm.catalog import check_pixels
from lapsvm.errors import DataError, NotFiniteError, OptionError
from lapsvm.features.extractors import specs
from lapsvm.features.extractors.blocks import Block, block_record, recorded_blocks, sizes_of
from lapsvm.features.extractors.maps.letterbox import letterbox, picture_size, visible_cells
from lapsvm.features.extractors.maps.on_device import DeviceMap, KeepingNetwork, keeps_maps
from lapsvm.features.extractors.maps.outputs import MAX_PREFIX, MULTIPLE, MapOutput, find_map_outputs
from lapsvm.features.extractors.maps.prepared import PoolingRules, PreparedMaps, PreparedPicture
from lapsvm.features.extractors.networks import LARGEST_NETWORK, Network, RuntimeNetwork
from lapsvm.features.extractors.picture import Colours, resized
from lapsvm.features.extractors.specs import Machine, Spec
from lapsvm.files import read_regular

DEFAULT_SIZE = 640
APPENDED = "appended"
_read_size = specs.whole_number(MULTIPLE, 8192)
OPTIONS = {
    "output": specs.words,
    "order": specs.choice("rgb", "bgr"),
    "mean": specs.one_or_three_numbers,
    "scale": specs.one_or_three_positive_numbers,
    "size": _read_size,
    "norm": specs.choice("l2", "none"),
    "contrast": specs.share,
    "context": specs.choice("none", APPENDED),
    "patch": specs.whole_number(1, 1024),
    "prefix": specs.whole_number(0, MAX_PREFIX),
}


class PooledNetwork:
    """Maps of a network for the whole picture, averaged over each window.

    The network's input is ``(pixels - mean) * scale``, with channels in `order`.

    Parameters
    ----------
    network : Network
    weights : str
        Hash of the network's file, or of its weights.
    output : str or sequence of str, optional
        The output or outputs that are maps; by default the only one with 4 dimensions. One with 3 dimensions, (1,
        tokens, channels), is the tokens of a vision transformer, and the default where none has 4.
    order : "rgb" or "bgr"
    mean : tuple of 3 floats, default 127.5 each
        In the network's order of channels.
    scale : float or tuple of 3 floats, default 1/127.5
    size : int, default 640
        Longest side of the network's input, in pixels.
    norm : "l2" or "none"
        Whether each window's features are normalised to length 1.
    contrast : float, default 0
        Share of the features of a window's context that is subtracted from its own, in [0, 1]; less at the border
        of the picture (see `lapsvm.features.extractors.maps.pooling.pool_rings`). .25 to .5 was best on VOC pictures.
    context : "none" or "appended"
        Whether the weighted features of the context are appended to the window's own, twice as many in all.
    name : str, optional
        Name of the network, if its weights do not identify it.
    patch, prefix : int, optional
        Side of a transformer's patches in pixels of its input, and the number of tokens before those of the patches; by
        default found from the number of tokens.

    Attributes
    ----------
    fixed_size : tuple of int or None
        Height and width, if the network accepts only these.

    Raises
    ------
    OptionError
        If there is no such output, or none is chosen of several, or `size` is given for a network of fixed size, or
        `patch` or `prefix` does not fit the output, or must be given because several fit.
    DataError
        If no output has 4 dimensions or is the tokens of a grid of patches.
    """

    def __init__(
        self,
        network: Network,
        weights: str,
        *,
        output: str | Sequence[str] | None = None,
        order: str = "rgb",
        mean: tuple[float, float, float] = (127.5, 127.5, 127.5),
        scale: float | tuple[float, float, float] = 1 / 127.5,
        size: int | None = None,
        norm: str = "l2",
        contrast: float = 0.0,
        context: str = "none",
        name: str | None = None,
        patch: int | None = None,
        prefix: int | None = None,
    ) -> None:
        if contrast and context == APPENDED:
            raise OptionError(f"contrast must not be given where context=appended keeps both parts, got {contrast}.")
        colours = Colours(order, mean, scale if isinstance(scale, tuple) else (scale,) * 3)
        self._network, self._weights, self._name, self._colours = network, weights, name, colours
        self._rules = PoolingRules(contrast, context == APPENDED, norm == "l2")
        self.fixed_size = network.fixed_size
        self._size = DEFAULT_SIZE if size is None else self._checked_size(size)
        wanted = [output] if output is None or isinstance(output, str) else output
        self._outputs = find_map_outputs(network, wanted, patch, prefix)

    def at_size(self, size: int) -> Self:
        """Return an extractor with the same open network and another size of its input.

        Raises
        ------
        OptionError
            If the size breaks its rule, or the network's is fixed.
        """
        other = copy(self)
        other._size = self._checked_size(size)
        return other

    def _checked_size(self, size: int) -> int:
        """Return a size of the network's input. Raises OptionError if it breaks its rule, or the network's is fixed."""
        if self.fixed_size is not None:
            raise OptionError(f"size must not be given: the network takes only {self.fixed_size}, got {size}.")
        try:
            return _read_size(str(size))
        except ValueError as error:
            raise OptionError(f"size must be {error}, got {size}.") from None

    def coarser_than(self, stride: float) -> Self | None:
        """Return an extractor of the same network's maps with larger strides than `stride`. None if it has none."""
        return self._with_outputs(output for output in self._outputs if output.cell[0] > stride)

    def finer_than(self, stride: float) -> Self | None:
        """Return an extractor of the same network's maps with smaller strides than `stride`. None if it has none."""
        return self._with_outputs(output for output in self._outputs if output.cell[0] < stride)

    def _with_outputs(self, outputs: Iterable[MapOutput]) -> Self | None:
        """Return an extractor of some of the network's maps. None without any."""
        chosen = tuple(outputs)
        if not chosen:
            return None
        other = copy(self)
        other._outputs = chosen
        return other

    def with_network(self, change: Callable[[Network], Network]) -> Self:
        """Return an extractor of the same maps by another network, which `change` makes of this one's."""
        other = copy(self)
        other._network = change(self._network)
        return other

    @property
    def strides(self) -> tuple[float, ...]:
        """Pixels of the network's input per row of each map."""
        return tuple(output.cell[0] for output in self._outputs)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """One block for each map: its channels, with the channels of the context if that is appended."""
        return tuple(Block.of(output.channels, self._rules.appends_context) for output in self._outputs)

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return sum(sizes_of(self.blocks))

    def describe(self) -> dict[str, Any]:
        """Return everything that the features depend on."""
        return {
            "kind": "pooled-network",
            "version": 2,
            **block_record(self.blocks),
            "engine": self._network.runtime["name"],
            "weights": self._weights,
            **self._colours.describe(),
            "norm": "l2" if self._rules.normalise else "none",
            "output": _one_or_list([output.name for output in self._outputs]),
            "size": list(self._network.fixed_size or ()) or self._size,
            "contrast": float(self._rules.contrast),
            "runtime": {**self._network.runtime, "strides": list(self.strides)},
            **self._nondefault_settings(),
        }

    def _nondefault_settings(self) -> dict[str, Any]:
        """Return the later settings where they differ from their defaults, so that older shards stay valid."""
        settings: dict[str, Any] = {"network": self._name, "fit": "letterbox" if self.fixed_size else None}
        for name in ("patch", "prefix"):
            values = [getattr(output, name) for output in self._outputs]
            settings[name] = None if set(values) == {None} else _one_or_list(values)
        return {name: value for name, value in settings.items() if value is not None}

    def prepare(self, pixels: Array) -> PreparedPicture:
        """Prepare a picture for several calls with windows; the network sees it now.

        Parameters
        ----------
        pixels : ndarray of shape (h, w, 3), uint8 RGB

        Returns
        -------
        PreparedPicture

        Raises
        ------
        ShapeError, InputError, DataError, NotFiniteError
            As calling the extractor.
        """
        check_pixels(pixels)
        maps = self._kept_maps(self._network, pixels) if keeps_maps(self._network) else self.feature_maps(pixels)
        return PreparedMaps(maps, pixels.shape[0], pixels.shape[1], self._rules)

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the features of windows, float32 of shape (n, dim) (see `Extractor`)."""
        return self.prepare(pixels)(boxes)

    def feature_map(self, pixels: Array) -> Float32:
        """Return the network's map of a picture, the first of several (see `feature_maps`)."""
        return self.feature_maps(pixels)[0]

    def feature_maps(self, pixels: Array) -> list[Float32]:
        """Return the network's maps of a picture, each float32 of shape (channels, rows, columns).

        Raises
        ------
        DataError
            If the network cannot take the picture.
        NotFiniteError
            If a map is not finite.
        """
        batch = self._batch(pixels)
        outputs = self._network.run(batch)
        return [self._checked_map(output, outputs[output.name], batch, pixels) for output in self._outputs]

    def _kept_maps(self, network: KeepingNetwork, pixels: Array) -> list[DeviceMap]:
        """Return the network's maps of a picture, which stay on its device."""
        batch = self._batch(pixels)
        outputs = network.run_kept(batch)
        maps = []
        for output in self._outputs:
            feature_map = network.kept_map(output.cells(outputs[output.name], *batch.shape[2:]))
            if feature_map is None:
                raise _not_finite(output)
            maps.append(feature_map)
        return maps

    def _checked_map(self, output: MapOutput, value: Array, batch: Float32, pixels: Array) -> Float32:
        """Return the part of an output's map for a batch that shows the picture."""
        feature_map = output.read(value, *batch.shape[2:])
        if feature_map.ndim != 3 or len(feature_map) != output.channels or not feature_map.size:
            raise DataError(
                f"output {output.name!r} of the network must be a map of {output.channels} channels for each picture, "
                f"got shape {np.shape(value)}."
            )
        if self.fixed_size is not None:
            feature_map = visible_cells(feature_map, output, *self._picture_size(pixels))
        if not np.isfinite(feature_map).all():
            raise _not_finite(output)
        return feature_map

    def _picture_size(self, pixels: Array) -> tuple[int, int]:
        """Return the height and width of a picture in the network's input."""
        return picture_size(pixels.shape[0], pixels.shape[1], self._size, self._outputs, self.fixed_size)

    def _batch(self, pixels: Array) -> Float32:
        """Return the network's input for a picture, (1, 3, h, w)."""
        return letterbox(self._colours(resized(pixels, *self._picture_size(pixels)))[None], self.fixed_size)


def _not_finite(output: MapOutput) -> NotFiniteError:
    return NotFiniteError(f"output {output.name!r} of the network must be finite, got NaN or infinity.")


def open_pooled_network(spec: Spec, machine: Machine) -> PooledNetwork:
    """Return the extractor that an ``onnx:`` spec asks for (see `open_extractor`)."""
    if not spec.file:
        raise OptionError(f"a file must be named, as in {spec.kind}:network.onnx.")
    options = specs.read_options(spec, OPTIONS)
    content = read_regular(spec.file, "network", LARGEST_NETWORK)
    network = RuntimeNetwork(spec.file, content, machine.threads, machine.device)
    weights = blake2b(content, digest_size=16).hexdigest()
    return PooledNetwork(network, weights, **options)


def pooling_options(description: Mapping[str, Any]) -> str:
    """Return the options, as in an extractor's text, that give the settings of a description of a `PooledNetwork`."""
    listed = ("output", "order", "mean", "scale", "size", "norm")
    texts = {name: _joined(description[name]) for name in listed}
    appends_context = all(block.has_context for block in recorded_blocks(description))
    texts |= {"context": APPENDED} if appends_context else {"contrast": repr(description["contrast"])}
    return "&".join(f"{name}={text}" for name, text in texts.items())


def _joined(value: Any) -> str:
    """Return a value as text, the items of a list with commas between them."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _one_or_list(values: list[Any]) -> Any:
    """Return the only value of a list, or the list."""
    return values[0] if len(values) == 1 else values
