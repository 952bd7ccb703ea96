"""Sources of objectness by name: the network that a package brings, an ONNX file, or a source of one's own."""

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from importlib.metadata import EntryPoint
from inspect import signature
from typing import Any

from lapsvm.arrays import check_choice
from lapsvm.catalog import find_point, is_own, load_point, running
from lapsvm.errors import DataError, InputError, OptionError, SettingsError
from lapsvm.features import settings_difference
from lapsvm.features.extractors import specs
from lapsvm.features.extractors.networks import LARGEST_NETWORK, RuntimeNetwork, load_runtime
from lapsvm.features.extractors.specs import Spec, parse_spec
from lapsvm.files import read_regular
from lapsvm.objectness.own import OwnSource
from lapsvm.objectness.saliency import PEAK, InputColours, SaliencyNetwork
from lapsvm.objectness.source import ObjectnessSource
from lapsvm.objectness.u2netp import KIND, check_saliency, described_text, open_u2netp
from lapsvm.settings import AUTO, DEVICES, NO_SOURCE, NORMAL

ENTRY_POINTS = "lapsvm.objectness"
ONNX = "onnx"


def _scale(text: str) -> float | str:
    """Read "peak" or a number greater than 0."""
    return text if text == PEAK else _positive(text)


_positive = specs.limited(specs.number, lambda value: value > 0, f"{PEAK} or a finite number greater than 0")
_yes_or_no = specs.choice("yes", "no")
COLOURS: Mapping[str, Callable[[str], Any]] = {
    "scale": _scale,
    "mean": specs.one_or_three_numbers,
    "std": specs.one_or_three_positive_numbers,
    "order": specs.choice("rgb", "bgr"),
}
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    **COLOURS,
    "size": specs.whole_number(1, 8192),
    "output": str,
    "activation": specs.choice("none", "sigmoid"),
    "stretch": lambda text: _yes_or_no(text) == "yes",
}


def open_objectness(text: str, *, device: str = "auto") -> ObjectnessSource | None:
    """Open a source of objectness by its text.

    Parameters
    ----------
    text : str
        ``none``; ``u2netp[?size=N]``, U2-Net's small version; ``onnx:FILE[?size=N&scale=peak|NUMBER&mean=a,b,c
        &std=a,b,c&order=rgb|bgr&output=NAME&activation=none|sigmoid&stretch=yes|no]``, a network that gives one map a
        picture, whose defaults are those of U2-Net; or an entry point of the group ``lapsvm.objectness``, a callable
        without arguments that returns a source. docs/reference/objectness.md lists all options.
    device : "auto", "cpu" or "cuda"
        Where ONNX Runtime runs a network; see `lapsvm.features.open_extractor`.

    Returns
    -------
    ObjectnessSource or None
        None for "none".

    Raises
    ------
    OptionError
        If the name, an option or its value is unknown, or the text is "auto", which only a run can resolve, or
        "normal", which is fitted to pictures; if an entry point cannot be loaded.
    InputError
        If it is no text, or an entry point gives no source.
    MissingError
        If the file does not exist.
    DataError
        If the network cannot be read, or its output is not one map; if an entry point fails.
    DependencyError
        If ONNX Runtime, or the package with the network, is not installed.
    """
    check_choice("device", device, DEVICES)
    if not isinstance(text, str):
        raise InputError(f"objectness must be named by a text, got {text!r}.")
    spec = parse_spec(text, "objectness")
    if spec.kind == AUTO:
        raise OptionError("objectness 'auto' must be resolved by a run; name a source, or none.")
    if spec.kind == NORMAL:
        raise OptionError("objectness 'normal' must be fitted, by a run or by lapsvm.objectness.NormalMap.fit.")
    opener = OPENERS.get(spec.kind) or _find_point(spec)
    try:
        return opener(spec, device)
    except (OptionError, DataError) as error:
        raise type(error)(f"objectness {text!r}: {error}") from None


def check_packages(text: str) -> None:
    """Raise DependencyError unless the packages that a source needs can be imported; its file is not opened."""
    spec = parse_spec(text, "objectness")
    if spec.kind == KIND:
        check_saliency()
    elif spec.kind == ONNX:
        load_runtime(f"network {spec.file} needs onnxruntime", "onnx")


def open_described(
    description: Mapping[str, Any], text: str | None = None, *, device: str = "auto"
) -> ObjectnessSource:
    """Open the source that a model or a shard describes.

    Parameters
    ----------
    description : mapping
        What `ObjectnessSource.describe` returned; values below the key "runtime" may differ.
    text : str, optional
        What opened it, as a run folder's ``run.toml`` has it. The source `u2netp` is known without it.
    device : "auto", "cpu" or "cuda"

    Returns
    -------
    ObjectnessSource

    Raises
    ------
    SettingsError
        If there is no text and it is not `u2netp`, or the text opens another source.
    OptionError, InputError, MissingError, DataError, DependencyError
        As `open_objectness`.
    """
    known = described_text(description) or text
    if known is None:
        raise SettingsError(f"only {KIND} is known by its description; name the source of objectness by its text.")
    source = open_objectness(known, device=device)
    if source is None:
        raise SettingsError(f"objectness {known!r} must be the source that is described.")
    difference = settings_difference(description, source.describe())
    if difference:
        raise SettingsError(f"objectness {known!r} must be the source that is described, which has {difference}.")
    return source


def _open_none(spec: Spec, device: str) -> None:  # noqa: ARG001
    """Return no source."""
    _check_bare(spec)


def _check_bare(spec: Spec) -> None:
    """Raise OptionError if a spec is more than a name."""
    if spec.text != spec.kind:
        raise OptionError(f"{spec.kind} takes no file and no options.")


def _open_network(spec: Spec, device: str) -> SaliencyNetwork:
    """Return the source that an ``onnx:`` spec asks for."""
    if not spec.file:
        raise OptionError("a file must be named, as in onnx:network.onnx.")
    options = specs.read_options(spec, OPTIONS)
    colours = InputColours(**{name: options.pop(name) for name in COLOURS if name in options})
    content = read_regular(spec.file, "network", LARGEST_NETWORK)
    network = RuntimeNetwork(spec.file, content, 1, device)
    return SaliencyNetwork(network, sha256(content).hexdigest(), colours=colours, **options)


def _find_point(spec: Spec) -> Callable[[Spec, str], ObjectnessSource]:
    """Return the opening function of another package's source. Raises OptionError if no entry point has the name."""
    return partial(
        _open_point, find_point(ENTRY_POINTS, f"objectness {spec.text!r}", spec.kind, [*OPENERS, AUTO, NORMAL])
    )


def _open_point(point: EntryPoint, spec: Spec, device: str) -> ObjectnessSource:  # noqa: ARG001 - its own device
    """Return the source that an entry point's callable makes."""
    _check_bare(spec)
    make = load_point(point)
    try:
        signature(make).bind()
    except (TypeError, ValueError) as error:
        raise OptionError(f"{point.name} must be made without arguments: {error}.") from None
    with running(point):
        source = make()
    if not isinstance(source, ObjectnessSource):
        raise InputError(
            f"objectness {point.name!r} must have methods describe and regions, got {type(source).__name__}."
        )
    return OwnSource(point, source) if is_own(source) else source


OPENERS: Mapping[str, Callable[[Spec, str], ObjectnessSource | None]] = {
    NO_SOURCE: _open_none,
    KIND: open_u2netp,
    ONNX: _open_network,
}
"""The names that are known besides entry points."""
