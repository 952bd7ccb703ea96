"""Which pictures of a run raise an alarm: probabilities of held-out training pictures and of the test set."""

import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.detection.alarms import OK, AlarmThreshold, Share
from lapsvm.errors import ModelFileError, OptionError, StageError
from lapsvm.evaluation import Detections, image_auroc, image_average_precision
from lapsvm.evaluation.figures import Draws, interval_row, ranking_figures

from ..context import StoredRun
from ..products.detections import read_detections
from ..products.held_out import HeldOut, read_held_out
from ..products.models import load_detectors
from ..run.dataset import has_pictures_of_no_class, positive_pictures
from ..run.folder import RunFolder
from ..run.groups import n_groups
from ..run.progress import Reporter
from .whole_pictures import NONE, WholePictures

Intervals = dict[str, dict[str, float] | None]
"""Measure -> interval; None where the figure is undefined."""
USUAL_SHARE = 0.05
"""Of false alarms, where a command names one."""


@dataclass(frozen=True, eq=False)
class PictureProbabilities:
    """The probabilities of pictures, and what they show.

    Attributes
    ----------
    classes : tuple of str
    probabilities : (n, k) float64
        Of every class: that of the best box, or of best box and whole picture.
    shown : (n, k) int8
        Labels: 1, -1, or 0 where it is not known.
    ids : tuple of n str
    """

    classes: tuple[str, ...]
    probabilities: Float64
    shown: NDArray[np.int8]
    ids: tuple[str, ...]

    @property
    def best(self) -> Float64:
        """The highest probability of each picture, (n,)."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def is_ok(self) -> NDArray[np.bool_]:
        """Which pictures show no class, (n,)."""
        return np.asarray((self.shown == -1).all(axis=1))

    @property
    def any_shown(self) -> NDArray[np.int8]:
        """Labels of all classes as one, (n,): 1 where a picture shows a class, -1 where none, 0 if it is not known."""
        return np.where(self.is_ok, -1, (self.shown == 1).any(axis=1).astype(np.int8))

    def any_class(self) -> dict[str, float | None] | None:
        """Return how well the highest probability tells pictures of a class from those of none; None without both."""
        labels = self.any_shown
        if not {-1, 1} <= {*labels.tolist()}:
            return None
        return {"image_ap": image_average_precision(self.best, labels), "image_auroc": image_auroc(self.best, labels)}

    def any_class_intervals(self, draws: Draws) -> Intervals:
        """Return the intervals of `any_class` by measure; empty without it."""
        figures = ranking_figures(self.any_class() or {}, self.best, self.any_shown, draws.of_pictures(self.ids))
        return interval_row(figures)

    def shares(self, probability: float, groups: Index) -> dict[str, Share]:
        """Return how many pictures, in groups (n,), alarm at a threshold: of no class under "ok", and of each class.

        Of those of no class each group counts the same, as in the promise.
        """
        alarms = self.best >= probability
        kinds = {OK: self.is_ok, **{name: self.shown[:, row] == 1 for row, name in enumerate(self.classes)}}
        return {name: Share.among(alarms[rows], groups[rows], by_picture=name != OK) for name, rows in kinds.items()}


def calibrated_detectors(stored: StoredRun) -> dict[str, Detector]:
    """Return class -> its detector.

    Raises StageError if a class has no detector by the run's settings, or one without probabilities, and OptionError if
    a class is called "ok".
    """
    if OK in stored.data.classes:
        raise OptionError(f"a threshold needs classes that are not called {OK!r}, as pictures without an alarm are.")
    detectors = {one.class_name: one for one in load_detectors(stored, "threshold")}
    for name, detector in detectors.items():
        if detector.calibration is None:
            raise StageError(f"threshold needs probabilities, but the model of {name!r} has none: {_FEW}.")
    return detectors


_FEW = "it has too few pictures, or groups of them, for held-out scores"


def known_held_out(run: RunFolder, detectors: Mapping[str, Detector]) -> dict[str, HeldOut]:
    """Return class -> the held-out scores of the training pictures; StageError if a class has none."""
    found = {name: read_held_out(run, name) for name in detectors}
    known = {name: one for name, one in found.items() if one is not None}
    if lacking := [name for name in detectors if name not in known]:
        raise StageError(
            f"threshold needs held-out scores of {lacking[0]!r}: {_FEW}, or lapsvm train makes them again."
        )
    return known


def joined_probabilities(
    held_out: Mapping[str, HeldOut], detectors: Mapping[str, Detector], pictures: WholePictures = NONE
) -> PictureProbabilities:
    """Return the held-out probabilities of the pictures that all classes have in a fold."""
    rows = {name: {image_id: row for row, image_id in enumerate(one.ids)} for name, one in held_out.items()}
    ids = [one for one in next(iter(rows.values())) if all(one in of_class for of_class in rows.values())]
    chosen = {name: np.array([of_class[one] for one in ids], dtype=np.intp) for name, of_class in rows.items()}
    columns = [
        pictures.fitted[name].held_out[chosen[name]] if name in pictures.fitted
        else detectors[name].probability(scores.score[chosen[name]])
        for name, scores in held_out.items()
    ]  # fmt: skip
    shown = np.array([one.y[chosen[name]] for name, one in held_out.items()], np.int8).T
    return PictureProbabilities(tuple(held_out), np.array(columns, np.float64).T, shown, tuple(ids))


def tested_detections(stored: StoredRun) -> Mapping[str, Detections] | None:
    """Return the detections of the test set; None without one.

    Raises StageError if there are none by the run's present models.
    """
    name = stored.settings.data.test_set
    return read_detections(stored, "threshold", name) if name in stored.data.records else None


def set_probabilities(
    detections: Mapping[str, Detections],
    records: Iterable[ImageRecord],
    detectors: Mapping[str, Detector],
    pictures: WholePictures = NONE,
) -> PictureProbabilities | None:
    """Return the probabilities of the pictures with detections of every class; None without such a picture."""
    best = {name: detections[name].best_scores() for name in detectors}
    scored = [one for one in records if all(one.id in of_class for of_class in best.values())]
    if not scored:
        return None
    ids = [record.id for record in scored]
    scores = {name: [of_class[image_id] for image_id in ids] for name, of_class in best.items()}
    columns = [
        pictures.probability(name, ids, scores[name]) if name in pictures.fitted else detector.probability(scores[name])
        for name, detector in detectors.items()
    ]
    shown = [[record.labels.get(name, 0) for name in detectors] for record in scored]
    return PictureProbabilities(tuple(detectors), np.array(columns, np.float64).T, np.array(shown, np.int8), tuple(ids))


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The probabilities that verdicts of a run compare.

    Attributes
    ----------
    held_out : PictureProbabilities
        Of training pictures, by models that did not see them.
    tested : PictureProbabilities or None
        Of the test set, if there is one.
    """

    held_out: PictureProbabilities
    tested: PictureProbabilities | None

    def any_class(self) -> dict[str, dict[str, float | None]]:
        """Return how well pictures of a class are separated from those of none, "held_out" and "tested" where known."""
        return {name: row for name, pictures in self.sets.items() if (row := pictures.any_class())}

    @property
    def sets(self) -> dict[str, PictureProbabilities]:
        """The pictures, under "held_out" and "tested"."""
        return {"held_out": self.held_out} | ({} if self.tested is None else {"tested": self.tested})

    def groups(self, stored: StoredRun) -> dict[str, Index]:
        """Return the groups (n,) of the pictures of each of `sets`."""
        names = {"held_out": stored.train_set, "tested": stored.settings.data.test_set}
        return {
            name: stored.groups(names[name], pictures.ids, stored.shards_if_any(names[name]))
            for name, pictures in self.sets.items()
        }

    def draws(self, seed: int, groups: Mapping[str, Index]) -> dict[str, Draws]:
        """Draw the pictures of each entry of `any_class`, whose groups are known."""
        return {name: Draws.of(self.sets[name].ids, seed, groups[name]) for name in self.any_class()}

    def any_class_intervals(self, draws: Mapping[str, Draws]) -> dict[str, Intervals]:
        """Return the intervals of `any_class` by draws of its pictures."""
        return {name: self.sets[name].any_class_intervals(of) for name, of in draws.items()}


def run_verdicts(
    stored: StoredRun,
    detections: Mapping[str, Detections] | None,
    held_out: Mapping[str, HeldOut],
    detectors: Mapping[str, Detector],
    pictures: WholePictures = NONE,
) -> Verdicts:
    """Return the probabilities of a run's pictures, of best windows or with whole pictures.

    `detections` are those of `tested_detections`.
    """
    records = stored.data.records.get(stored.settings.data.test_set, ())
    tested = None if detections is None else set_probabilities(detections, records, detectors, pictures)
    return Verdicts(joined_probabilities(held_out, detectors, pictures), tested)


def stored_threshold(run: RunFolder, reporter: Reporter, detectors: Mapping[str, Detector]) -> AlarmThreshold | None:
    """Return the threshold that was chosen for the run's present models; None without one, or a line says why."""
    path = run.threshold_file
    if not path.is_file():
        return None
    try:
        alarm = AlarmThreshold.load(path)
        differences = [alarm.scoring_difference(detector) for detector in detectors.values()]
    except ModelFileError as error:
        reporter.say(f"{error} The page shows no threshold.")
        return None
    if alarm.fits(list(detectors.values())) and not any(differences):
        return alarm
    other = next(filter(None, differences), "other models")
    reporter.say(f"threshold {path} was chosen with {other}: the page shows none. Run lapsvm threshold again.")
    return None


def threshold_command(stored: StoredRun, detectors: Mapping[str, Detector]) -> str:
    """Return the command that chooses a threshold, to paste into a terminal; "" where the run cannot have one.

    Its share of false alarms is 5 %, or what so few pictures of no class can promise.
    """
    name, classes = stored.train_set, stored.data.classes
    have_all = all(one.calibration is not None for one in detectors.values())
    if not has_pictures_of_no_class(stored.data, name) or not have_all or OK in classes:
        return ""
    ids = [record.id for record in stored.data.records[name]]
    shown = positive_pictures(stored.data.records[name], classes)
    is_good = np.array([image_id not in shown for image_id in ids])
    count = n_groups(stored.groups(name, ids, stored.shards_if_any(name)), is_good)
    share = max(USUAL_SHARE, math.ceil(100 / (count + 1)) / 100)
    folder = shlex.quote(str(stored.folder.path))
    return f"lapsvm threshold --out {folder} --max-false-alarms {share:g}" if share < 1 else ""
