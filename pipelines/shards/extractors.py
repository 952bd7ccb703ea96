"""The extractor that a run's settings name, with what they ask of every network."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from lapsvm.features import Concatenation, Extractor, PooledNetwork, open_extractor
from lapsvm.features.extractors.extractor import sees_surroundings
from lapsvm.features.extractors.specs import parse_spec

from ..run.settings import FeatureSettings
from ..run.trusted_code import check_trusted

COARSE = 24  # a map of a larger stride gains from enlarged pictures; a finer one costs much and gains little


def open_settings_extractor(settings: FeatureSettings, device: str = "auto", named: Collection[str] = ()) -> Extractor:
    """Return the extractor; options in the text of one extractor win over the settings for all.

    `named` are the extractors that stand on this command line: these may run code of the modules that they name.

    Raises
    ------
    SettingsError
        If an extractor would run code that the user has not asked for.
    """
    check_trusted(settings.extractors, named)
    if not settings.extractors:
        return open_extractor([])
    parts = [part for text in settings.extractors for part in open_extractors(text, settings, device)]
    return parts[0] if len(parts) == 1 else Concatenation(parts)


def network_settings(settings: FeatureSettings) -> dict[str, Any]:
    """Return the settings that `open_extractors` reads, for the provenance of shards and models."""
    contrast = 0.0 if settings.beside else settings.contrast  # taken away in training then, not in the shards
    return {"contrast": contrast, "beside": settings.beside, "sizes": list(settings.sizes)}


def with_network_settings(extractors: tuple[str, ...], stored: Mapping[str, Any]) -> FeatureSettings:
    """Return the settings under which extractors give the features that a model's provenance tells of."""
    known = {name: stored[name] for name in ("contrast", "beside")}  # whatever else a stranger's model may say
    return replace(FeatureSettings(extractors), **known, sizes=tuple(stored["sizes"]))


def open_extractors(text: str, settings: FeatureSettings, device: str = "auto") -> list[Extractor]:
    """Return an extractor, a network completed by the settings; one for every size of picture, which share it.

    A network whose own size is fixed, or that says at which size it sees pictures, comes once; its fine maps come at
    the first size only.
    """
    first = open_extractor(completed(text, settings), device=device)
    sized = isinstance(first, PooledNetwork) and first.fixed_size is None and "size" not in parse_spec(text).options
    if not (isinstance(first, PooledNetwork) and sized and settings.sizes):
        return [first]
    coarse = first.coarser_than(COARSE)
    later = [] if coarse is None else [coarse.at_size(size) for size in settings.sizes[1:]]
    return [first.at_size(settings.sizes[0]), *later]


def completed(text: str, settings: FeatureSettings) -> str:
    """Return the text of an extractor with what the settings say of surroundings, unless it does or has none."""
    options = parse_spec(text).options
    if {"contrast", "surroundings"} & set(options) or not sees_surroundings(text):
        return text
    added = "surroundings=beside" if settings.beside else f"contrast={settings.contrast!r}" if settings.contrast else ""
    return f"{text}{'&' if options else '?'}{added}" if added else text
