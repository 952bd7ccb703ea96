"""What the rules for next steps know of a run: options in use, and what they ask of unseen pictures."""

from collections.abc import Sequence

from lapsvm.catalog import ImageRecord

from ..run.dataset import label_vector
from ..run.settings import Settings
from .evaluation import SetEvaluation, best_scores
from .held_out import HeldOut


def options_in_use(settings: Settings) -> set[str]:
    """Return the options of `lapsvm.report.RULES` that a run has already."""
    windows, features, train, detect = settings.windows, settings.features, settings.train, settings.detect
    in_use = {
        "--recipe best": settings.refine.rounds > 0 and features.contrast > 0,
        "--set windows.max_area=0.5": windows.max_area <= 0.5,
        "--set train.top=20": train.top >= 20,
        "--set detect.box_voting=0.7": detect.box_voting > 0,
        "--sizes 640,960": len(features.sizes) > 1,
        "--set windows.mode=quality": windows.mode == "quality",
        "--max-windows 4000": windows.max_windows >= 4000 or windows.max_windows == 0,
    }
    return {option for option, is_used in in_use.items() if is_used}


def unseen_image_ap(
    name: str, test: SetEvaluation | None, records: Sequence[ImageRecord], held_out: HeldOut | None
) -> tuple[float | None, float | None]:
    """Return the image AP of unseen pictures and that of a random order; None where it is not known.

    Parameters
    ----------
    name : str
    test : SetEvaluation or None
        Of the test set, if there is one.
    records : sequence of ImageRecord
        The pictures of the test set.
    held_out : HeldOut or None
        Used without a test set.
    """
    if test is None:
        return (None, None) if held_out is None else (held_out.image_ap, held_out.chance)
    best = best_scores(test.detections[name])
    labels = label_vector([record for record in records if record.id in best], name)
    labels = labels[labels != 0]
    return test.image_ap[name], float((labels > 0).mean()) if len(labels) else None
