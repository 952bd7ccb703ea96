"""The extractor of a run's settings, completed by the settings for all networks."""

from collections.abc import Collection
from contextlib import suppress

from lapsvm.errors import LapsvmError, OptionError
from lapsvm.features import Extractor
from lapsvm.features.extractors.extractor import open_sized_extractor, open_sizes, sees_surroundings
from lapsvm.features.extractors.specs import MAX_DIGITS, parse_spec

from ..run.settings import FeatureSettings, Settings


def open_settings_extractor(settings: FeatureSettings, device: str = "auto", named: Collection[str] = ()) -> Extractor:
    """Return the extractor; options in the text of one extractor override the settings for all.

    `named` are the extractors of this command line, which may run code of their modules; others raise SettingsError.
    """
    return open_sized_extractor(settings.extractors, settings.networks, device, named)


def check_sizes(settings: Settings, device: str = "auto") -> None:
    """Raise OptionError if a network is to see pictures larger than those it gets.

    Pictures are reduced to ``windows.max_side`` first, so that a network would see them blurred at a higher price.
    """
    limit = settings.windows.max_side
    for text in filter(sees_surroundings, settings.features.extractors):
        own = parse_spec(text).options.get("size")
        largest = _largest_size(text, settings, device) if own is None else _own_size(own)
        what = "option --sizes" if own is None else f"size of extractor {text!r}"
        if largest > limit:
            raise OptionError(
                f"{what} must be at most windows.max_side, to which pictures are reduced before the network sees them, "
                f"got {largest} and {limit}; --set windows.max_side={largest} keeps their detail."
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
            seen = [part.describe()["size"] for part in open_sizes(text, settings.features.networks, device)]
            return max((size for size in seen if isinstance(size, int)), default=0)
    return largest
