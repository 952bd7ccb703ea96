"""The held-out figures of a run: of training pictures, by models that did not see them."""

from collections.abc import Mapping
from dataclasses import dataclass

from lapsvm.detection import Reliability
from lapsvm.evaluation import Draws, Figures, MeasuredClass, Ranking
from lapsvm.evaluation.measured import HeldOutClass
from lapsvm.evaluation.measures import Pictures
from lapsvm.report.next_steps import is_weak

from ..annotations.known_boxes import Truth
from ..context import StoredRun
from ..inspection.probabilities import PictureProbabilities
from ..inspection.whole_pictures import PictureRules
from ..products.held_out import HeldOut, read_held_out
from ..products.models import available_detectors
from ..run.dataset import has_pictures_of_no_class
from .compute import RIGHT


@dataclass(frozen=True)
class Unseen:
    """Held-out scores of the classes that have them, and the reliability of their probabilities.

    `has_none` says whether some pictures show no class (see `has_pictures_of_no_class`); `pictures` have the
    probabilities of all classes then, if they are known.
    """

    held_out: Mapping[str, HeldOut]
    reliability: Mapping[str, Reliability | None]
    has_none: bool = False
    pictures: PictureProbabilities | None = None

    @classmethod
    def of_run(cls, stored: StoredRun) -> "Unseen":
        """Read the held-out scores and the calibrations of a run."""
        run, data = stored.folder, stored.data
        found = {name: read_held_out(run, name) for name in data.classes}
        held_out = {name: one for name, one in found.items() if one is not None}
        detectors = {
            name: one for name, one in available_detectors(run, data.classes).items() if one.calibration is not None
        }
        reliability = {name: one.calibration.reliability for name, one in detectors.items() if one.calibration}
        has_none = has_pictures_of_no_class(data, stored.train_set)
        is_whole = held_out.keys() == detectors.keys() == set(data.classes)
        pictures = PictureRules(detectors, held_out).of_held_out() if is_whole and has_none else None
        return cls(held_out, reliability, has_none, pictures)

    @property
    def ids(self) -> list[str]:
        """The pictures of any class."""
        return list(dict.fromkeys(image for of_class in self.held_out.values() for image in of_class.ids))

    def figures(self, truth: Truth | None, stored: StoredRun | None = None) -> Figures | None:
        """Return the held-out figures, or None if no class has any.

        Parameters
        ----------
        truth : ground truth of the training set, or None
            Without it there is no CorLoc and no pointing.
        stored : StoredRun, optional
            Its seed and groups draw the pictures; without it figures have no intervals.
        """
        if not self.held_out:
            return None
        classes = {name: self._measured(name, truth) for name in self.held_out}
        any_class = None if self.pictures is None else self.pictures.measured
        draws = None
        if stored is not None:
            shards = stored.shards_if_any(stored.train_set)
            draws = Draws.of(self.ids, stored.settings.seed, stored.groups(stored.train_set, self.ids, shards))
        return Figures.of("", Pictures.HELD_OUT, classes, draws, any_class)

    def _measured(self, name: str, truth: Truth | None) -> MeasuredClass:
        held_out = self.held_out[name]
        return MeasuredClass(
            ranking=Ranking(held_out.ids, held_out.score, held_out.y),
            has_none=self.has_none,
            corloc={} if truth is None else {RIGHT: held_out.corloc(name, truth[name])},
            pointing=None if truth is None else held_out.pointing(name, truth[name]),
            held_out=HeldOutClass(held_out.chance, self.reliability.get(name)),
        )

    def weakness_message(self) -> str:
        """Return a sentence on detectors that hardly separate the pictures of some class; "" without such a class."""
        weak = {name: one for name, one in self.held_out.items() if is_weak(one.image_ap, one.chance)}
        if not weak:
            return ""
        figures = ", ".join(f"{name} {one.image_ap:.2f} (chance {one.chance:.2f})" for name, one in weak.items())
        return (
            f"the detectors hardly separate pictures with and without a class, held-out image AP: {figures}; their "
            "boxes are not to be trusted: check the labels, add pictures, or use features of another network "
            "(--extractor)."
        )
