"""A review of a finished run: which pictures are asked for, with which boxes, and what was said of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from io import BytesIO
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.boxes import areas, common_areas, iou
from lapsvm.catalog import Pixels
from lapsvm.detection import Detector, smooth_scores
from lapsvm.errors import DataError, OptionError, StageError
from lapsvm.features import Extractor, ShardSet
from lapsvm.inspection.shown import PROBABLE

from ..context import StoredRun, Workspace
from ..products.held_out import read_held_out
from ..products.models import load_detectors
from ..run.dataset import label_vector
from ..shards.windows import UnusableError, run_pixels
from ..verdicts.reviewed import ReviewedClass, reviewed_by_class
from ..verdicts.verdict import Verdict, append_verdicts
from .class_review import BoxModels, ClassReview
from .learning import Learning

LONGEST_SIDE = 1600
JPEG_QUALITY = 85
COUNT = 3
INSIDE = 0.9  # the share of a box's area that lies in the one around it
SMALLER = 0.6  # a part has at most this share of the area of the whole
APART = 0.3  # boxes that overlap less are elsewhere
LEAST = 0.02  # a part has at least this share
FIRST = 20
"""Pictures of a class to review; its share of right boxes is then known to about 20 points either way."""


class ReviewSession:
    """What the page asks and says, for the pictures of one run.

    Parameters
    ----------
    stored : StoredRun
    class_name : str or None
        The only class; None: all.

    Raises
    ------
    OptionError
        If the run has no such class, or its learner has no window scores of a single class.
    StageError
        If the run has no models, or not those of its settings, or no shards.
    """

    decides = False

    def __init__(self, stored: StoredRun, class_name: str | None = None) -> None:
        self.stored, self._lock = stored, Lock()
        self.learning: Learning | None = None
        self.shards = _shards(stored)
        self.ids, self.hashes = self.shards.image_ids, self.shards.pixel_hashes
        self._records = [stored.training_pictures[name] for name in self.ids]
        detectors = _detectors(stored, class_name)
        reviewed = reviewed_by_class(stored.verdicts, self.shards, detectors)
        self.notes = [note for one in reviewed.values() for note in one.notes]  # on verdicts that do not count
        self.classes = [self._class(detector, reviewed[name]) for name, detector in detectors.items()]
        self.image = lru_cache(16)(self._image)

    def _class(self, detector: Detector, reviewed: ReviewedClass) -> ClassReview:
        name = reviewed.name
        held_out = read_held_out(self.stored.folder, name)
        positives = np.flatnonzero(label_vector(self._records, name) > 0).tolist()
        order = random_order([self.ids[row] for row in positives], name, self.stored.settings.seed)
        rows = [positives[place] for place in order]
        said = {
            picture: reviewed.verdicts[picture]
            for picture in self.stored.verdicts.of_class(name)
            if picture in reviewed.verdicts
        }
        return ClassReview(name, rows, said, [BoxModels(detector, held_out)])

    def learn(self, workspace: Workspace, open_extractor: Callable[[], Extractor]) -> Learning:
        """Let classes learn from verdicts from now on, until what is returned is stopped; arguments as `Learning`."""
        self.learning = Learning(self.stored, self.shards, self.classes, workspace, open_extractor)
        return self.learning

    def end(self) -> None:
        """Let classes learn no more."""
        if self.learning is not None:
            self.learning.stop()

    def figures(self) -> list[str]:
        """Return a sentence on the right boxes of each class of which this is known."""
        known = [(one.name, self.figure(index)) for index, one in enumerate(self.classes)]
        return [f"{name}: {figure}" for name, figure in known if figure]

    # ---- what the page asks ----
    def overview(self) -> list[dict[str, Any]]:
        """Return name, number of undecided pictures, figure and learning of every class."""
        left = [sum(1 for _ in self.open_rows(review)) for review in self.classes]
        return [
            {"name": review.name, "left": left[index], **self._state(index)}
            for index, review in enumerate(self.classes)
        ]

    def _state(self, index: int) -> dict[str, Any]:
        """Return figure and learning of a class."""
        learning = {} if self.learning is None else self.learning.state(index)
        return {"figure": self.figure(index), **learning}

    def queue(self, index: int) -> list[dict[str, Any]]:
        """Return the pictures of a class in order, with what was said, and when; "random" marks the first ones."""
        review = self.classes[index]
        times = {picture: time for time, picture in enumerate(review.verdicts)}
        return [
            {
                "n": row,
                "verdict": said.verdict if (said := self._verdict(review, row)) else None,
                "said": times.get(self.ids[row], -1),
                "random": place < FIRST,
            }
            for place, row in enumerate(review.rows)
        ]

    def item(self, index: int, row: int) -> dict[str, Any]:
        """Return a picture's size, its boxes to choose from, whose they are, and what was said.

        Raises LookupError if there is no such class, or the picture is none of it.
        """
        version = self.classes[index].version
        review, candidates, (height, width) = self._asked(index, row, version)
        return {
            "n": row,
            "version": version,
            "picture": self.ids[row],
            "width": width,
            "height": height,
            "candidates": candidates,
            "second": self.second_object(review, row, version, candidates),
            **_answered(self._verdict(review, row)),
        }

    def _asked(self, index: int, row: int, version: int) -> tuple[ClassReview, list[list[float]], tuple[int, int]]:
        """Return a class, and the boxes of a version and the size of a picture of it; LookupError if there is none."""
        review = self.classes[index]
        if row not in review.rows or not 0 <= version < len(review.models):
            raise LookupError(row)
        return review, *self.candidates(review, row, version)

    def candidates(self, review: ClassReview, row: int, version: int = -1) -> tuple[list[list[float]], tuple[int, int]]:
        """Return the boxes to choose from in a picture, by default the present ones, and its height and width."""
        models, picture = review.models[version], self.shards.picture(self.ids[row])
        boxes = np.array(picture.boxes, dtype=np.float64)
        scores, prior = models.detector.score(picture.features), models.detector.prior
        smoothed = smooth_scores(boxes, scores if prior is None else prior.ranked(scores, boxes))
        first = models.first_boxes.get(self.ids[row], boxes[int(np.argmax(smoothed))])
        found = candidate_boxes(np.asarray(first, dtype=np.float64), boxes, smoothed)
        return np.round(found, 2).tolist(), picture.size

    def second_object(self, review: ClassReview, row: int, version: int, candidates: list[list[float]]) -> int | None:
        """Return the index of a candidate that may be a second object: apart from the first, and probable."""
        detector, picture = review.models[version].detector, self.shards.picture(self.ids[row])
        chosen, boxes = np.array(candidates), np.array(picture.boxes, dtype=np.float64)
        windows = iou(chosen, boxes).argmax(axis=1)
        probabilities = detector.probability(smooth_scores(boxes, detector.score(picture.features))[windows])
        if probabilities is None:
            return None
        rows = np.flatnonzero(_extents(chosen[0], chosen)[2] & (probabilities >= PROBABLE))
        return int(rows[0]) if len(rows) else None

    def figure(self, index: int) -> str:
        """Return how many held-out boxes of a class are right; "" if that is not known."""
        figure = self.classes[index].verified()
        return "" if figure is None else str(figure)

    def prepare(self) -> None:
        """Make the picture that the page shows first ready, so that nobody waits for it."""
        rows = (row for review in self.classes for row in self.open_rows(review))
        with suppress(StopIteration, UnusableError):  # it is named when it is asked for
            self.image(next(rows))

    def open_rows(self, review: ClassReview) -> Iterator[int]:
        """Return the pictures of a class that are undecided or skipped, in order."""
        decided = review.decided()
        return (row for row in review.rows if self.ids[row] not in decided)

    # ---- what the page says ----
    def record(self, entry: object) -> dict[str, Any]:
        """Check a verdict of the page, append it to the file, and return figure and learning, and what it "replaced".

        "version" says whose boxes the person saw, by default those of now. With "undo" a verdict comes back as it was.

        Raises
        ------
        DataError
            If the entry breaks a rule.
        LookupError
            If there is no such class, or the picture is none of it.
        WriteError
            If it could not be saved.
        """
        if not isinstance(entry, dict):
            raise DataError("a verdict must be a JSON object.")
        index, row = entry.get("class"), entry.get("n")
        if type(index) is not int or type(row) is not int or not 0 <= index < len(self.classes):
            raise LookupError(index)
        version = entry.get("version", self.classes[index].version)
        if type(version) is not int:
            raise LookupError(version)
        review, candidates, (height, width) = self._asked(index, row, version)
        given = {name: entry[name] for name in ("verdict", "boxes", "seconds") if name in entry}
        known = {"picture": self.ids[row], "class": review.name, "pixels": self.hashes[row], "order": "random"}
        verdict = Verdict.parsed({**given, **known, "candidates": candidates})
        if fault := verdict.fault((width, height)):
            raise DataError(
                f"a verdict must have boxes that lie in the picture of {width} x {height}, got one {fault}."
            )
        with self._lock:
            verdict = review.restored(verdict) if entry.get("undo") is True else verdict
            replaced = self._verdict(review, row)
            append_verdicts(self.stored.folder.verdicts_file, [verdict])
            review.take(verdict)
        if self.learning is not None:
            self.learning.notice(index)
        return {**self._state(index), "replaced": _answered(replaced)}

    def _verdict(self, review: ClassReview, row: int) -> Verdict | None:
        return review.verdicts.get(self.ids[row])

    def _image(self, row: int, side: int = LONGEST_SIDE) -> bytes:
        """Return a picture as JPEG with a longest side of at most `side`; UnusableError if it is not the run's."""
        return jpeg(run_pixels(self._records[row], self.hashes[row]), side)


def _answered(said: Verdict | None) -> dict[str, Any]:
    """Return the verdict on a picture, as the page takes it."""
    return {"verdict": said and said.verdict, "boxes": [list(box) for box in said.boxes] if said else []}


def jpeg(pixels: Pixels, side: int) -> bytes:
    """Return pixels as a JPEG file with a longest side of at most `side`, without any metadata."""
    from PIL import Image

    picture, buffer = Image.fromarray(pixels), BytesIO()
    picture.thumbnail((side, side), reducing_gap=1.0)
    picture.save(buffer, "JPEG", quality=JPEG_QUALITY)
    return buffer.getvalue()


def _shards(stored: StoredRun) -> ShardSet:
    shards = stored.shards_if_any(stored.train_set)
    if shards is None:
        folder = stored.folder.shards(stored.train_set)
        raise StageError(f"review needs the windows of the training set, but {folder} holds no shards.")
    lost = next((name for name in shards.image_ids if name not in stored.training_pictures), None)
    if lost is not None:
        raise StageError(f"review needs the pictures of the run, but the data set has no picture {lost!r}.")
    return shards


def _detectors(stored: StoredRun, class_name: str | None) -> dict[str, Detector]:
    names = stored.data.classes
    if class_name is not None and class_name not in names:
        raise OptionError(f"option --class must be a class of the run ({', '.join(names)}), got {class_name!r}.")
    return {one.class_name: one for one in load_detectors(stored, "review") if class_name in (None, one.class_name)}


def candidate_boxes(first: Float64, boxes: Float64, scores: Float64) -> Float64:
    """Return the boxes to choose from, (k, 4) float64 with k from 1 to 3, `first` first.

    Labels alone do not say whether a part, the object or more than it is meant. So after the first box come the
    best-scored window inside it, the best one around it, and the best one elsewhere, by score.

    Parameters
    ----------
    first : (4,) float64
    boxes : (n, 4) float64
        The picture's windows.
    scores : (n,) float64
    """
    part, more, apart = (_best(mask, scores) for mask in _extents(first, boxes))
    chosen = [*sorted([*part, *more], key=lambda row: -scores[row]), *apart][: COUNT - 1]
    return np.concatenate([first[None], boxes[chosen].reshape(-1, 4)]).astype(np.float64)


def _best(mask: NDArray[np.bool_], scores: Float64) -> list[int]:
    """Return the best-scored window of a mask, in a list; none if the mask is empty."""
    rows = np.flatnonzero(mask)
    return [int(rows[np.argmax(scores[rows])])] if len(rows) else []


def _extents(first: Float64, boxes: Float64) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which windows are a part of the first box, contain it, and are elsewhere."""
    common, own, whole = common_areas(boxes, first[None]), areas(boxes), float(areas(first[None])[0])
    part = (common >= INSIDE * own) & (own <= SMALLER * whole) & (own >= LEAST * whole)
    more = (common >= INSIDE * whole) & (own * SMALLER >= whole)
    apart = (iou(boxes, first[None])[:, 0] < APART) & ~part & ~more
    return part, more, apart


def random_order(ids: Sequence[str], class_name: str, seed: int) -> list[int]:
    """Return the positions of a class's pictures in the order in which a person sees them.

    It depends on the seed, the class and the pictures' names alone. So the first ones are a random sample, pictures
    that are added do not change the order of others, and every figure of verdicts may use any number of them.

    Parameters
    ----------
    ids : sequence of str
        All different.
    class_name : str
    seed : int
    """

    def draw(position: int) -> bytes:
        return blake2b(repr((seed, class_name, ids[position])).encode("utf-8", "surrogatepass")).digest()

    return sorted(range(len(ids)), key=draw)
