"""Extractors by the settings for all networks: surroundings, and several sizes of pictures."""

from collections.abc import Collection, Sequence

from lapsvm.features.extractors.extractor import Concatenation, Extractor, open_extractor, sees_surroundings
from lapsvm.features.extractors.pooled_network import PooledNetwork
from lapsvm.features.extractors.specs import check_trusted, parse_spec
from lapsvm.settings import NetworkSettings

COARSE = 24  # stride above which enlarged pictures improve a map; on finer maps they cost much and gain little


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
