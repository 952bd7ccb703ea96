"""Sentences of the page on what stands out: what marks it, and whether it helped to choose the boxes of a class."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lapsvm.arrays import is_optional_number
from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.errors import ModelFileError
from lapsvm.objectness.u2netp import NETWORK_SHA256
from lapsvm.settings import IMPORTED

from .refining.prior import STANDS_OUT

SALIENCY_NETWORK, NORMAL = "saliency-network", "normal-map"
"""Kinds of sources, as they describe themselves."""
_SHOWN = 12  # digits of a hash
_HOW = (
    "Objectness is how well a box fits what stands out, from 0 to 1; the numbers are means over the boxes of training "
    f"pictures that scores alone choose. From {STANDS_OUT[1]:.2f} it counts in full where refinement chooses boxes, up "
    f"to {STANDS_OUT[0]:.2f} not at all. Detection does not need it."
)


class Recorded(NamedTuple):
    """What a model records of what stands out.

    Attributes
    ----------
    source : mapping
        The description of what measured it.
    classes : list of str
        The classes that the settings name; these alone use it.
    stands_out : float or None
        Mean objectness of the boxes that scores choose; None if the class did not come to it.
    share : float
        How much it counts, from 0 to 1.
    """

    source: Mapping[str, Any]
    classes: list[str]
    stands_out: float | None
    share: float


def recorded(detector: Detector) -> Recorded | None:
    """Return the objectness that a model records; None if its run uses no objectness.

    Raises
    ------
    ModelFileError
        If what it records is damaged.
    """
    training, result = (provenance_value(detector, name) for name in ("training", "result"))
    used = training.get("objectness") if isinstance(training, Mapping) else None
    if used is None:
        return None
    try:
        counted = result.get("objectness") or {"stands_out": None, "share": 0.0}
        found = Recorded(used["source"], used["classes"], counted["stands_out"], counted["share"])
    except (KeyError, TypeError, AttributeError):
        found = None
    if found is None or not _is_sound(found):
        raise ModelFileError(f"model {detector.class_name!r} is damaged: objectness in its provenance is no result.")
    return found


def _is_sound(found: Recorded) -> bool:
    """Return whether what a model records has the types that it must have."""
    are_numbers = found.share is not None and is_optional_number(found.share) and is_optional_number(found.stands_out)
    return are_numbers and isinstance(found.source, Mapping) and isinstance(found.classes, list)


def counts(found: Recorded | None) -> bool:
    """Return whether what stands out helped to choose the boxes of a class."""
    return found is not None and bool(found.share)


def class_sentence(name: str, found: Recorded | None, verdicts: str = "") -> str:
    """Return whether objectness helped to choose the boxes of a class; "" if its run has none.

    Whether the boxes end at the object, `verdicts` say, as "14 of 20 right: 48 to 85 %"; without them, nothing does.
    """
    if found is None:
        return ""
    if found.stands_out is None:
        return f"What stands out is not used: {_reason(name, found)}."
    number = f"objectness {found.stands_out:.2f}"
    if name in found.classes:
        return (
            f"Boxes of {name} end where something stands out, as the settings say ({number}). {_truth(name, verdicts)}"
        )
    if not found.share:
        return f"{name} does not stand out: not used ({number})."
    if found.share < 1:
        how = f"What stands out counts by {100 * found.share:.0f} % in boxes of {name} ({number})."
        return f"{how} {_truth(name, verdicts)}"
    return f"Boxes of {name} end where something stands out ({number}). {_truth(name, verdicts)}"


def _truth(name: str, verdicts: str) -> str:
    """Return the knowledge on whether boxes that end where something stands out hold the object."""
    return f"By verdicts {verdicts}." if verdicts else f"Whether that is the {name}, only a look says."


def _reason(name: str, found: Recorded) -> str:
    """Return why a class did not come to what stands out."""
    if found.classes and name not in found.classes:
        return "the settings name other classes"
    return f"no picture with {name} was measured"


def source_sentences(found: Iterable[Recorded | None]) -> tuple[str, ...]:
    """Return sentences on a run's objectness source and on how it counts; empty without objectness.

    All models of a run have the same source.
    """
    source = next((one.source for one in found if one is not None), None)
    return () if source is None else (_source_sentence(source), _HOW)


def _source_sentence(source: Mapping[str, Any]) -> str:
    """Return a sentence on the kind of an objectness source and on its knowledge."""
    kind = str(source.get("kind", "no name"))
    if source.get("weights") == NETWORK_SHA256:
        return (
            "What stands out is marked by u2netp, a network that has seen 10,553 masks of salient objects without "
            "class names; so where it is used, boxes come from more than labels."
        )
    if kind == SALIENCY_NETWORK:
        return (
            f"What stands out is marked by the network with the SHA-256 {str(source.get('weights'))[:_SHOWN]}..., and "
            "what it has learned from is not recorded; where it is used, boxes come from more than labels."
        )
    known = {
        NORMAL: "What stands out is what pictures without the classes lack; labels alone decide that, those of the "
        "held-out folds too.",
        IMPORTED: "What stands out was imported with the windows, and where it comes from is not recorded.",
    }
    return known.get(kind, f"What stands out is marked by a source of your own, {kind}.")
