"""How a picture becomes windows, features and detections: plain settings, which models record.

A setting is declared once: a field with its default, one sentence of help and the rule of its values (`setting`). The
module imports next to nothing, because the command line reads it before anything else.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

MAX_NUMBER = 2**31 - 1
DEVICES = ("auto", "cpu", "cuda")
FILE, IMPORTED = "file", "imported"  # sources of windows that are no methods: files of other programs
AUTO = "auto"  # of extractors, recipe and objectness
NO_SOURCE = "none"  # of objectness
NORMAL = "normal"  # the source of objectness that is fitted to negative pictures
INITS = ("mean", "whole_image", "random")
"""The windows from which training starts."""


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`; `above` and `below` exclude the limits. NaN and infinity are outside."""

    low: float = 0
    high: float = math.inf
    above: bool = False
    below: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
            return False
        over = value > self.low if self.above else value >= self.low
        return over and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"a finite number {'greater than' if self.above else 'of at least'} {self.low:g}"
        if not (self.above or self.below):
            return f"from {self.low} to {self.high}"
        lower, upper = "above" if self.above else "at least", "below" if self.below else "at most"
        return f"{lower} {self.low} and {upper} {self.high}"


Rule = Range | tuple[str, ...]
POSITIVE, AT_LEAST_0, SHARE, SHARE_ABOVE_0 = Range(0, above=True), Range(0), Range(0, 1), Range(0, 1, above=True)
COUNT, COUNT_FROM_1, SIDE = Range(0, MAX_NUMBER), Range(1, MAX_NUMBER), Range(64, MAX_NUMBER)


def setting(default: Any, sentence: str, rule: Rule | None = None, **more: object) -> Any:
    """Return a field of a table of settings.

    Parameters
    ----------
    default : object
        Of the type of all values: text, a whole number, a number, true or false, or a tuple of one of these.
    sentence : str
        Its help.
    rule : Range, tuple of str, or None
        The numbers, or the texts, that a value may be; of a tuple each item.
    **more
        Further metadata of the field, for programs that know it.
    """
    return field(default=default, metadata={"help": sentence, "rule": rule, **more})


_FORMER = {
    ("features", "beside"): "store_context",  # of run.toml and recipes, up to 0.2
    ("refine", "surroundings"): "context_share",  # of these, and of the provenance of models
    ("networks", "beside"): "store_context",  # of the provenance of shards and models
}
"""(Table, key) as released versions wrote it -> the key's present name."""
_FORMER_OPTIONS = {"surroundings=beside": "context=appended", "surroundings=none": "context=none"}  # of extractors


def current_names(stored: Mapping[str, Any], table: str = "") -> dict[str, Any]:
    """Return the tables of a file under the present names of settings: the one place that knows the former ones.

    Parameters
    ----------
    stored : mapping
        Plain JSON or TOML: the tables of a run.toml or a recipe, the provenance of a shard, the description of a model.
    table : str, default ""
        The key that `stored` stands below.
    """
    has_blocks = not {"blocks", "kept"}.isdisjoint(stored)  # of an extractor, of a projection
    renamed: dict[str, Any] = {}
    for key, value in stored.items():
        name = "has_context" if has_blocks and key == "halves" else _FORMER.get((table, key), key)
        renamed[name] = current_names(value, key) if isinstance(value, Mapping) else value
    if table == "features" and isinstance(texts := renamed.get("extractors"), list):
        renamed["extractors"] = [_current_text(text) if isinstance(text, str) else text for text in texts]
    return renamed


def former_name(name: str) -> str:
    """Return the present name of a setting that had another in a released version, such as "refine.context_share"."""
    table, _, key = name.rpartition(".")
    return f"{table}.{_FORMER[table, key]}" if (table, key) in _FORMER else ""


def _current_text(extractor: str) -> str:
    """Return the text of an extractor with the present names of its options."""
    name, mark, options = extractor.rpartition("?") if "?" in extractor else (extractor, "", "")
    return name + mark + "&".join(_FORMER_OPTIONS.get(option, option) for option in options.split("&"))


@dataclass(frozen=True)
class ProposalSettings:
    """How windows are proposed by a method of `lapsvm.windows`, and how large pictures are reduced."""

    method: str = setting(
        "selective_search",
        "The method that proposes windows: selective_search, mixed, small, contrast, grid, selectivesearch, opencv, or "
        "your own.",
    )
    mode: str = setting("fast", "The mode of windows: single (selective_search, opencv), fast or quality.")
    max_windows: int = setting(2000, "The number of windows per picture.", COUNT)
    max_area: float = setting(1.0, "The largest window, as a share of the picture.", SHARE_ABOVE_0)
    proposal_side: int = setting(
        512, "A picture whose longer side is above this many pixels is reduced to it for proposals.", SIDE
    )
    max_side: int = setting(
        2048, "A picture whose longer side is above this many pixels is reduced to it for features.", SIDE
    )


@dataclass(frozen=True)
class NetworkSettings:
    """What holds for all networks whose text does not say otherwise.

    ``contrast`` is the share of the context's features that is subtracted from a window's. With ``store_context`` both
    are stored, training subtracts, and refinement uses both. ``sizes`` are the longest sides at which a network sees
    each picture; their features stand side by side.
    """

    contrast: float = 0.0
    store_context: bool = False
    sizes: tuple[int, ...] = ()

    def provenance(self) -> dict[str, Any]:
        """Return the settings that decide the features, as shards and models record them."""
        contrast = 0.0 if self.store_context else self.contrast  # with both parts stored, training subtracts
        return {"contrast": contrast, "store_context": self.store_context, "sizes": list(self.sizes)}

    @classmethod
    def from_provenance(cls, stored: Mapping[str, Any]) -> Self:
        """Return the settings that a model records; a model of somebody else may hold other keys, too."""
        return cls(stored["contrast"], stored["store_context"], tuple(stored["sizes"]))


@dataclass(frozen=True)
class DetectSettings:
    """How scores become detections."""

    nms_threshold: float = setting(0.3, "The overlap above which suppression drops the lower box.", SHARE)
    max_detections: int = setting(100, "The number of detections per picture and class.", COUNT_FROM_1)
    demotion: float = setting(0.0, "Demotion d: a score s becomes s + d (s - best of the picture).", AT_LEAST_0)
    score_smoothing: float = setting(
        0.0, "The share of a score that windows which nearly coincide decide; 0 for none.", SHARE
    )
    box_voting: float = setting(
        0.0, "The temperature at which boxes move to the mean of the windows around them; 0 for none.", AT_LEAST_0
    )
    box_voting_iou: float = setting(0.45, "The least overlap of windows that vote.", SHARE_ABOVE_0)
