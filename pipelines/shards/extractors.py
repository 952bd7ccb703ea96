"""The extractor of a run's settings, completed by the settings for all networks."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from lapsvm.errors import OptionError
from lapsvm.features import Concatenation, Extractor, PooledNetwork, open_extractor
from lapsvm.features.extractors.extractor import sees_surroundings
from lapsvm.features.extractors.specs import parse_spec

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


def check_sizes(settings: Settings) -> None:
    """Raise OptionError if a network is to see pictures larger than those it gets.

    Pictures are reduced to ``--max-side`` first, so that a network would see them blurred at a higher price.
    """
    limit = settings.windows.max_side
    for text in filter(sees_surroundings, settings.features.extractors):
        own = parse_spec(text).options.get("size", "")
        largest = int(own) if own.isdecimal() else max(settings.features.sizes, default=0)
        what = f"size of extractor {text!r}" if own else "option --sizes"
        if largest > limit:
            raise OptionError(
                f"{what} must be at most --max-side, to which pictures are reduced before the network sees them, got "
                f"{largest} and {limit}; --max-side {largest} keeps their detail."
            )


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
