"""The protocol of extractors, their concatenation, and opening one by its text and the settings for all networks."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32, check_choice, check_count
from lapsvm.catalog import call_point, find_point, is_own
from lapsvm.errors import DataError, InputError, OptionError
from lapsvm.features.extractors.blocks import Block, block_record, check_blocks, sizes_of
from lapsvm.features.extractors.efficientnet import KIND, open_efficientnet
from lapsvm.features.extractors.efficientnet.extractor import check_photos
from lapsvm.features.extractors.hog import hog_text, open_hog
from lapsvm.features.extractors.maps.prepared import PreparedParts, PreparedPicture, PreparedPixels
from lapsvm.features.extractors.networks import load_runtime
from lapsvm.features.extractors.own import OwnExtractor, OwnNetwork
from lapsvm.features.extractors.pooled_network import PooledNetwork, open_pooled_network, pooling_options
from lapsvm.features.extractors.specs import Machine, Spec, check_trusted, is_warped, parse_spec
from lapsvm.features.extractors.torch_network import open_torch
from lapsvm.features.extractors.torch_running import load_torch
from lapsvm.settings import DEVICES, NetworkSettings


@runtime_checkable
class Extractor(Protocol):
    """Computes a feature vector for each window of a picture; thread-safe."""

    @property
    def dim(self) -> int:
        """Number of features of a window."""

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks of its features, in order; their sizes sum to `dim`. Training brings each to one mean norm."""

    def describe(self) -> dict[str, Any]:
        """Return everything that the features depend on, as plain JSON.

        It has no paths: a file is identified by the hash of its content. Values below the key "runtime" are recorded
        but need not match (see `check_settings`). Shards record the blocks with it, below the keys "blocks" and
        "has_context", which it need not have (see `recorded_description`).
        """

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the features of the windows of one picture.

        Parameters
        ----------
        pixels : ndarray of shape (h, w, 3), uint8 RGB
        boxes : array-like of shape (n, 4)
            x1, y1, x2, y2, 0-based and half-open; clipped to the picture.

        Returns
        -------
        ndarray of shape (n, dim), float32
            All finite; zeros for a window without area inside the picture.

        Raises
        ------
        ShapeError, InputError
            If the picture or the boxes have another shape or type.
        NotFiniteError
            If a box is NaN or infinite.
        """


class Concatenation:
    """The features of several extractors, concatenated.

    Parameters
    ----------
    parts : sequence of Extractor

    Raises
    ------
    InputError
        If there is none.
    """

    def __init__(self, parts: Sequence[Extractor]) -> None:
        if not parts:
            raise InputError("an extractor needs at least one spec, got none.")
        self.parts = tuple(parts)

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return sum(sizes_of(self.blocks))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of all parts, in order."""
        return tuple(block for extractor in self.parts for block in extractor.blocks)

    def describe(self) -> dict[str, Any]:
        """Return the parts' descriptions."""
        return {
            "kind": "concatenation",
            **block_record(self.blocks),
            "parts": {str(index): extractor.describe() for index, extractor in enumerate(self.parts)},
        }

    def prepare(self, pixels: Array) -> PreparedPicture:
        """Prepare a picture for several calls with windows (see `prepared`)."""
        return self.joined([prepared(extractor, pixels) for extractor in self.parts])

    def joined(self, parts: Sequence[PreparedPicture]) -> PreparedPicture:
        """Return a picture that every part has prepared."""
        return PreparedParts(parts, [len(extractor.blocks) for extractor in self.parts])

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the parts' features side by side, float32 of shape (n, dim)."""
        return self.prepare(pixels)(boxes)


def recorded_description(extractor: Extractor) -> dict[str, Any]:
    """Return the description of an extractor and its blocks, as shards, projections and models record them."""
    return extractor.describe() | block_record(extractor.blocks)


def prepared(extractor: Extractor, pixels: Array) -> PreparedPicture:
    """Prepare a picture for several calls with windows.

    An extractor with a method ``prepare`` does the expensive part now, such as the pass of a network; others keep the
    pixels.

    Parameters
    ----------
    extractor : Extractor
    pixels : ndarray of shape (h, w, 3), uint8 RGB

    Returns
    -------
    PreparedPicture
        Its features equal those of the extractor, and ``project`` multiplies them by the components of a projection.
    """
    prepare: Callable[[Array], PreparedPicture] | None = getattr(extractor, "prepare", None)
    return PreparedPixels(extractor, pixels) if prepare is None else prepare(pixels)


ENTRY_POINTS = "lapsvm.extractors"
OPENERS: Mapping[str, Callable[[Spec, Machine], Extractor]] = {
    "hog": open_hog,
    "onnx": open_pooled_network,
    "torch": open_torch,
    KIND: open_efficientnet,
}
COARSE = 24  # stride above which enlarged pictures improve a map; on finer maps they cost much and gain little


def open_extractor(specs: str | Sequence[str], threads: int = 1, device: str = "auto") -> Extractor:
    """Open an extractor by its text.

    Parameters
    ----------
    specs : str or sequence of str
        ``hog[?size=48&cell=8&bins=9]``,
        ``efficientnet_lite0[?output=stride8|stride16|stride16_expanded|stride32]`` (or several with commas between
        them), with the options of ``onnx``,
        ``onnx:FILE[?output=NAME&order=rgb|bgr&mean=a,b,c&scale=s&size=N&norm=l2|none&contrast=b]``, or
        ``context=appended`` in place of the contrast;
        ``torch:PACKAGE.MODULE:FACTORY[?weights=FILE...]`` is run by torch, with ``way=warped[&size=224&context=16
        &batch=64]`` for each window by itself; ``torch:alexnet?weights=FILE|random[&seed=N&output=fc7|fc6]`` is R-CNN's
        way with the package's own AlexNet; or an entry point of the group
        ``lapsvm.extractors``, a callable that takes the text's options as keyword arguments and returns an extractor.
        docs/reference/features.md lists all options. The features of several extractors are concatenated.
    threads : int, default 1
        Threads that a network may use.
    device : "auto", "cpu" or "cuda"
        Where a network runs; "auto" is CUDA if torch can use it, or ONNX Runtime for a network of its own.

    Returns
    -------
    Extractor

    Raises
    ------
    OptionError
        If the kind, an option or its value is unknown, an output must be chosen, or an entry point cannot be loaded.
    InputError
        If an entry point gives no extractor.
    MissingError
        If the file does not exist.
    DataError
        If the network cannot be read, has no map among its outputs, or its weights do not fit; if an entry point fails.
    DependencyError
        If ONNX Runtime, torch, or the package with the weights is not installed.
    """
    texts = [specs] if isinstance(specs, str) else list(specs)
    check_count("threads", threads)
    check_choice("device", device, DEVICES)
    machine = Machine(threads, device)
    parts = [_open_one(parse_spec(text), machine) for text in texts]
    return parts[0] if len(parts) == 1 else Concatenation(parts)


def check_packages(texts: Iterable[str]) -> None:
    """Raise DependencyError unless the packages that extractors need can be imported; their files are not opened."""
    for spec in map(parse_spec, texts):
        if spec.kind == KIND:
            check_photos()
        elif spec.kind == "onnx":
            load_runtime(f"network {spec.file} needs onnxruntime", "onnx")
        elif spec.kind == "torch":
            load_torch(f"extractor {spec.text!r}")


def sees_context(text: str) -> bool:
    """Return whether an extractor's text names a network with a map, which depends on a window's context."""
    spec = parse_spec(text)
    return spec.kind in (KIND, "onnx", "torch") and not is_warped(spec)


def described_texts(description: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the texts that open the extractor of a description, every option named.

    Parameters
    ----------
    description : mapping
        The result of `Extractor.describe`, possibly read from an untrusted file.

    Returns
    -------
    tuple of str or None
        None if an extractor needs a file or code that descriptions do not name, or if this is no description.
    """
    try:
        return tuple(_described(description))
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def _described(description: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a description's extractors. Raises LookupError for one that needs a file or code."""
    if description["kind"] == "concatenation":
        parts = description["parts"]
        for number in range(len(parts)):
            yield from _described(parts[str(number)])
    elif description["kind"] == "hog":
        yield hog_text(description)
    elif description["network"] == KIND:
        yield f"{KIND}?{pooling_options(description)}"
    else:
        raise LookupError(description["network"])


def _open_one(spec: Spec, machine: Machine) -> Extractor:
    """Return the extractor of one spec."""
    opener = OPENERS.get(spec.kind) or _find_point(spec)
    try:
        return opener(spec, machine)
    except (OptionError, DataError) as error:
        raise type(error)(f"extractor {spec.text!r}: {error}") from None


def _find_point(spec: Spec) -> Callable[[Spec, Machine], Extractor]:
    """Return the opening function of another package's extractor. Raises OptionError if no entry point has the name."""
    return partial(_open_point, find_point(ENTRY_POINTS, f"extractor {spec.text!r}", spec.kind, OPENERS))


def _open_point(point: EntryPoint, spec: Spec, machine: Machine) -> Extractor:  # noqa: ARG001 - its own threads
    """Return the extractor that an entry point's callable makes of a spec's options."""
    if spec.file is not None:
        raise OptionError(f"{point.name} takes no file, got {spec.file!r}.")
    extractor = call_point(point, "", "options", **spec.options)
    if not isinstance(extractor, Extractor):
        members = "must have dim, blocks, describe() and a call with pixels and boxes"
        raise InputError(f"extractor {spec.text!r} {members}, got {type(extractor).__name__}.")
    check_blocks(f"extractor {spec.text!r}", extractor.blocks, extractor.dim)
    if isinstance(extractor, PooledNetwork):
        return extractor.with_network(lambda network: OwnNetwork(point, network) if is_own(network) else network)
    return OwnExtractor(point, extractor) if is_own(extractor) else extractor


def open_sized_extractor(
    texts: Sequence[str], settings: NetworkSettings, device: str = "auto", named: Collection[str] = ()
) -> Extractor:
    """Return the extractor of some texts; options in a text override the settings for all networks.

    `named` are the extractors that the user named, which may run code of their modules; others raise SettingsError.
    """
    check_trusted(texts, named)
    parts = [extractor for text in texts for extractor in open_sizes(text, settings, device)]
    return parts[0] if len(parts) == 1 else Concatenation(parts)


def open_sizes(text: str, settings: NetworkSettings, device: str = "auto") -> list[Extractor]:
    """Return the extractors of a text, for networks one per size of pictures; they share the network.

    A network with a fixed size, or with a size in the text, gives one extractor. Fine maps are used at the first size
    only.
    """
    first = open_extractor(completed(text, settings), device=device)
    has_size = "size" in parse_spec(text).options
    if has_size or not settings.sizes or not isinstance(first, PooledNetwork) or first.fixed_size:
        return [first]
    coarse = first.coarser_than(COARSE)
    later = [] if coarse is None else [coarse.at_size(size) for size in settings.sizes[1:]]
    return [first.at_size(settings.sizes[0]), *later]


def completed(text: str, settings: NetworkSettings) -> str:
    """Return the text of an extractor with the settings for the context added, unless it sets or lacks them."""
    options = parse_spec(text).options
    if {"contrast", "context"} & set(options) or not sees_context(text):
        return text
    contrast = f"contrast={settings.contrast!r}" if settings.contrast else ""
    added = "context=appended" if settings.store_context else contrast
    return f"{text}{'&' if options else '?'}{added}" if added else text
