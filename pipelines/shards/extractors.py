"""The extractor of a run's settings, completed by the settings for all networks."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lapsvm.errors import LapsvmError, OptionError
from lapsvm.features import Concatenation, Extractor, PooledNetwork, open_extractor
from lapsvm.features.extractors.extractor import sees_surroundings
from lapsvm.features.extractors.specs import MAX_DIGITS, parse_spec

from ..run.settings import FeatureSettings, Settings
from ..run.trusted_code import check_trusted

COARSE = 24  # stride above which enlarged pictures improve a map; on finer maps they cost much and gain little


def open_settings_extractor(settings: FeatureSettings, device: str = "auto", named: Collection[str] = ()) -> Extractor:
    """Return the extractor; options in the text of one extractor override the settings for all.

    `named` are the extractors of this command line, which may run code of their modules; others raise SettingsError.
    """
    check_trusted(settings.extractors, named)
    if not settings.extractors:
        return open_extractor([])
    parts = [part for text in settings.extractors for part in open_extractors(text, settings, device)]
    return parts[0] if len(parts) == 1 else Concatenation(parts)


def check_sizes(settings: Settings, device: str = "auto") -> None:
    """Raise OptionError if a network is to see pictures larger than those it gets.

    Pictures are reduced to ``--max-side`` first, so that a network would see them blurred at a higher price.
    """
    limit = settings.windows.max_side
    for text in filter(sees_surroundings, settings.features.extractors):
        own = parse_spec(text).options.get("size")
        largest = _largest_size(text, settings, device) if own is None else _own_size(own)
        what = "option --sizes" if own is None else f"size of extractor {text!r}"
        if largest > limit:
            raise OptionError(
                f"{what} must be at most --max-side, to which pictures are reduced before the network sees them, got "
                f"{largest} and {limit}; --max-side {largest} keeps their detail."
            )


def _own_size(text: str) -> int:
    """Return the size in an extractor's text; 0 for what is none, which opening the extractor refuses."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else 0


def _largest_size(text: str, settings: Settings, device: str) -> int:
    """Return the largest of ``--sizes`` at which a network sees pictures: none if its size is fixed.

    Only a network that can be opened tells; of others all sizes count, and opening them for extraction fails.
    """
    largest = max(settings.features.sizes, default=0)
    if largest > settings.windows.max_side:
        with suppress(LapsvmError):
            seen = [part.describe()["size"] for part in open_extractors(text, settings.features, device)]
            return max((size for size in seen if isinstance(size, int)), default=0)
    return largest


def network_settings(settings: FeatureSettings) -> dict[str, Any]:
    """Return the settings that `open_extractors` reads, for the provenance of shards and models."""
    contrast = 0.0 if settings.beside else settings.contrast  # with both halves stored, training subtracts
    return {"contrast": contrast, "beside": settings.beside, "sizes": list(settings.sizes)}


def with_network_settings(extractors: tuple[str, ...], stored: Mapping[str, Any]) -> FeatureSettings:
    """Return the feature settings for extractors from the network settings that a model's provenance stores."""
    known = {name: stored[name] for name in ("contrast", "beside")}  # a model of somebody else may hold other keys
    return replace(FeatureSettings(extractors), **known, sizes=tuple(stored["sizes"]))


def open_extractors(text: str, settings: FeatureSettings, device: str = "auto") -> list[Extractor]:
    """Return the extractors of a text, for networks one per size of pictures; they share the network.

    A network with a fixed size, or with a size in the text, gives one extractor. Fine maps are used at the first size
    only.
    """
    first = open_extractor(completed(text, settings), device=device)
    sized = isinstance(first, PooledNetwork) and first.fixed_size is None and "size" not in parse_spec(text).options
    if not (isinstance(first, PooledNetwork) and sized and settings.sizes):
        return [first]
    coarse = first.coarser_than(COARSE)
    later = [] if coarse is None else [coarse.at_size(size) for size in settings.sizes[1:]]
    return [first.at_size(settings.sizes[0]), *later]


def completed(text: str, settings: FeatureSettings) -> str:
    """Return the text of an extractor with the settings for surroundings added, unless it sets or lacks them."""
    options = parse_spec(text).options
    if {"contrast", "surroundings"} & set(options) or not sees_surroundings(text):
        return text
    added = "surroundings=beside" if settings.beside else f"contrast={settings.contrast!r}" if settings.contrast else ""
    return f"{text}{'&' if options else '?'}{added}" if added else text
