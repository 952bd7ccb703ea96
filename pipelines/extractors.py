"""The extractor that a run's settings name, with what they ask of every network."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lapsvm.features import Extractor, PooledNetwork, open_extractor
from lapsvm.features.specs import parse_spec

from .settings import FeatureSettings

NETWORKS = ("onnx", "onnx-cv2")
COARSE = 24  # a map of a larger stride gains from enlarged pictures; a finer one costs much and gains little


def open_settings_extractor(settings: FeatureSettings) -> Extractor:
    """Return the extractor; options in the text of one extractor win over the settings for all."""
    return open_extractor([text for spec in settings.extractors for text in expanded(spec, settings)])


def network_settings(settings: FeatureSettings) -> dict[str, Any]:
    """Return the settings that `expanded` reads, for the provenance of shards and models."""
    contrast = 0.0 if settings.beside else settings.contrast  # taken away in training then, not in the shards
    return {"contrast": contrast, "beside": settings.beside, "sizes": list(settings.sizes)}


def with_network_settings(extractors: tuple[str, ...], stored: Mapping[str, Any]) -> FeatureSettings:
    """Return the settings under which extractors give the features that a model's provenance tells of."""
    return replace(FeatureSettings(extractors), **{**stored, "sizes": tuple(stored["sizes"])})


def expanded(text: str, settings: FeatureSettings) -> list[str]:
    """Return the text of an extractor, for networks completed by the settings, once for every size of picture."""
    spec = parse_spec(text)
    if spec.kind not in NETWORKS:
        return [text]
    added = {}
    if not {"contrast", "surroundings"} & set(spec.options):
        if settings.beside:
            added["surroundings"] = "beside"
        elif settings.contrast:
            added["contrast"] = repr(settings.contrast)
    whole = _with_options(text, spec.options, added)
    sizes = () if "size" in spec.options else _sizes(text, settings.sizes)
    return [_with_options(whole, spec.options | added, {"size": str(size)}) for size in sizes] or [whole]


def _sizes(text: str, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Return at which of the sizes a network looks at pictures: none if its own is fixed, one if its map is fine."""
    if not wanted:
        return ()
    network = open_extractor(text)
    if not isinstance(network, PooledNetwork) or network.fixed_size is not None:
        return ()
    return wanted if network.stride > COARSE else wanted[:1]


def _with_options(text: str, there: Mapping[str, str], added: Mapping[str, str]) -> str:
    """Return the text with more options at its end."""
    mark = "&" if there else "?"
    return text + mark + "&".join(f"{key}={value}" for key, value in added.items()) if added else text
