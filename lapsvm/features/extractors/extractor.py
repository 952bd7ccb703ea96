"""The protocol of extractors, their concatenation, and opening one by its text and the settings for all networks."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32, check_choice, check_count, check_known
from lapsvm.errors import DataError, InputError, OptionError
from lapsvm.features.extractors.efficientnet import KIND, open_efficientnet
from lapsvm.features.extractors.hog import hog_text, open_hog
from lapsvm.features.extractors.maps.prepared import PreparedParts, PreparedPicture, PreparedPixels
from lapsvm.features.extractors.pooled_network import PooledNetwork, open_pooled_network, pooling_options
from lapsvm.features.extractors.specs import Machine, Spec, check_trusted, parse_spec
from lapsvm.features.extractors.torch_network import open_torch
from lapsvm.settings import NetworkSettings


@runtime_checkable
class Extractor(Protocol):
    """Computes a feature vector for each window of a picture; thread-safe."""

    @property
    def dim(self) -> int:
        """Number of features of a window."""

    @property
    def blocks(self) -> tuple[int, ...]:
        """Numbers of features of the parts that stand side by side; they sum to `dim`."""

    @property
    def halves(self) -> tuple[bool, ...]:
        """Whether each part is a window's features followed by as many of its surroundings."""

    def describe(self) -> dict[str, Any]:
        """Return everything that the features depend on, as plain JSON.

        It has no paths: a file is identified by the hash of its content. Values below the key "runtime" are recorded
        but need not match (see `check_settings`).
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
        return sum(self.blocks)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Numbers of features of each part, in order."""
        return tuple(size for part in self.parts for size in part.blocks)

    @property
    def halves(self) -> tuple[bool, ...]:
        """Whether each part has two halves."""
        return tuple(half for part in self.parts for half in part.halves)

    def describe(self) -> dict[str, Any]:
        """Return the parts' descriptions."""
        return {
            "kind": "concatenation",
            "blocks": list(self.blocks),
            "halves": list(self.halves),
            "parts": {str(index): part.describe() for index, part in enumerate(self.parts)},
        }

    def prepare(self, pixels: Array) -> PreparedPicture:
        """Return a picture whose windows' features can be asked for several times; see `prepared`."""
        return PreparedParts([prepared(part, pixels) for part in self.parts], [len(part.blocks) for part in self.parts])

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the parts' features side by side, float32 of shape (n, dim)."""
        return self.prepare(pixels)(boxes)


def prepared(extractor: Extractor, pixels: Array) -> PreparedPicture:
    """Return a picture whose windows' features can be asked for several times.

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


OPENERS: Mapping[str, Callable[[Spec, Machine], Extractor]] = {
    "hog": open_hog,
    "onnx": open_pooled_network,
    "torch": open_torch,
    KIND: open_efficientnet,
}
DEVICES = ("auto", "cpu", "cuda")
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
        ``surroundings=beside`` in place of the contrast;
        ``torch:PACKAGE.MODULE:FACTORY[?weights=FILE...]`` is run by torch. docs/reference/features.md lists all
        options. The features of several extractors are concatenated.
    threads : int, default 1
        Threads that a network may use.
    device : "auto", "cpu" or "cuda"
        Where torch runs a network; "auto" is CUDA if torch can use it.

    Returns
    -------
    Extractor

    Raises
    ------
    OptionError
        If the kind, an option or its value is unknown, or an output must be chosen.
    MissingError
        If the file does not exist.
    DataError
        If the network cannot be read, has no map among its outputs, or its weights do not fit.
    DependencyError
        If ONNX Runtime, torch, or the package with the weights is not installed.
    """
    texts = [specs] if isinstance(specs, str) else list(specs)
    check_count("threads", threads)
    check_choice("device", device, DEVICES)
    machine = Machine(threads, device)
    parts = [_open_one(parse_spec(text), machine) for text in texts]
    return parts[0] if len(parts) == 1 else Concatenation(parts)


def sees_surroundings(text: str) -> bool:
    """Return whether an extractor's text names a network, whose map depends on a window's surroundings."""
    return parse_spec(text).kind in (KIND, "onnx", "torch")


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
    """Yield the texts of a description's extractors; LookupError for one that needs a file or code."""
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
    check_known(f"extractor {spec.text!r}", spec.kind, OPENERS)
    try:
        return OPENERS[spec.kind](spec, machine)
    except (OptionError, DataError) as error:
        raise type(error)(f"extractor {spec.text!r}: {error}") from None


def open_sized_extractor(
    texts: Sequence[str], settings: NetworkSettings, device: str = "auto", named: Collection[str] = ()
) -> Extractor:
    """Return the extractor of some texts; options in a text override the settings for all networks.

    `named` are the extractors that the user named, which may run code of their modules; others raise SettingsError.
    """
    check_trusted(texts, named)
    parts = [part for text in texts for part in open_sizes(text, settings, device)]
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
    """Return the text of an extractor with the settings for surroundings added, unless it sets or lacks them."""
    options = parse_spec(text).options
    if {"contrast", "surroundings"} & set(options) or not sees_surroundings(text):
        return text
    added = "surroundings=beside" if settings.beside else f"contrast={settings.contrast!r}" if settings.contrast else ""
    return f"{text}{'&' if options else '?'}{added}" if added else text
