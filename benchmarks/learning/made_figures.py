"""Made pictures whose figures are known: scores of pictures, hits and boxes, alone and in groups."""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import (
    MEASURES,
    ClassHits,
    Detections,
    Draws,
    Figure,
    MeasuredClass,
    detection_figures,
    evaluate_voc,
    image_auroc,
    image_average_precision,
    share_figure,
)
from lapsvm.evaluation.measured import Ranking as RankedPictures

LARGE = 200_000  # pictures that stand for all
BOX = np.array([[10.0, 10.0, 50.0, 50.0]])
FAR = np.array([[100.0, 100.0, 140.0, 140.0]])
RANKED = ("image_auroc", "image_ap")
KINDS = ("equal spread", "wide positives", "tenth invisible", "quarter invisible", "ties")


class Groups(NamedTuple):
    """Pictures in groups: how many, whether of unequal sizes, and how much pictures of a group have in common."""

    number: int
    are_unequal: bool = False
    shared: float = 0.7


@dataclass(frozen=True)
class Ranking:
    """Pictures ranked by a score.

    Attributes
    ----------
    kind : one of KINDS
        How the scores of positives are distributed; those of negatives are normal.
    distance : float
        Between the means of both.
    positives : float
        The share of positive pictures.
    n : int
    groups : Groups or None
        In place of `n` pictures on their own.
    """

    kind: str
    distance: float
    positives: float
    n: int
    groups: Groups | None = None

    def group_of_pictures(self, rng: np.random.Generator) -> Index:
        """Draw the group of each picture."""
        if self.groups is None:
            return np.arange(self.n)
        sizes = rng.geometric(0.2, self.groups.number) if self.groups.are_unequal else [5] * self.groups.number
        return np.repeat(np.arange(self.groups.number), sizes)

    def sample(self, rng: np.random.Generator, learners: int = 1) -> tuple[Float64, Index, Index]:
        """Draw scores (learners, n), labels (n,) and groups (n,); each group shows the class or not."""
        group = self.group_of_pictures(rng)
        n_groups = int(group[-1]) + 1
        n_positive = min(max(1, round(self.positives * n_groups)), n_groups - 1)
        y = np.where(rng.permutation(n_groups)[group] < n_positive, 1, -1)
        shared = self.groups.shared if self.groups else 0.0
        of_group, of_picture = rng.standard_normal(n_groups)[group], rng.standard_normal(len(y))
        base = np.sqrt(shared) * of_group + np.sqrt(1 - shared) * of_picture
        own = rng.standard_normal((learners, len(y)))
        noise = base if learners == 1 else np.sqrt(0.7) * base + np.sqrt(0.3) * own
        scores = np.where(y > 0, self._positive(np.atleast_2d(noise), rng.random(n_groups)[group]), noise)
        return np.round(2 * scores) / 2 if self.kind == "ties" else scores, y, group

    def _positive(self, noise: Float64, chance: Float64) -> Float64:
        if self.kind == "wide positives":
            return 2 * noise + self.distance
        invisible = {"tenth invisible": 0.1, "quarter invisible": 0.25}.get(self.kind, 0.0)
        return noise + np.where(chance < invisible, 0.0, self.distance)

    def figures(self, rng: np.random.Generator, draws: int, learners: int = 1) -> list[dict[str, Figure]]:
        """Draw pictures, and return the figures of each learner on the same draws of them."""
        scores, y, group = self.sample(rng, learners)
        drawn = Draws.of([str(one) for one in range(len(y))], int(rng.integers(2**31)), group, draws)
        ranked = [MeasuredClass(RankedPictures(drawn.ids, of, y), has_none=True) for of in scores]
        return [{key: MEASURES[key].figure(of, drawn) or Figure(None) for key in RANKED} for of in ranked]

    def truth(self) -> dict[str, float]:
        """Return the figures of very many pictures."""
        return _truth(replace(self, n=LARGE, groups=None))


def values(scores: Float64, y: Index) -> dict[str, float]:
    """Return the two figures of a ranking."""
    return {"image_auroc": image_auroc(scores, y), "image_ap": image_average_precision(scores, y)}  # type: ignore[dict-item]


@cache
def _truth(ranking: Ranking) -> dict[str, float]:
    scores, y, _ = ranking.sample(np.random.default_rng(0))
    return values(scores[0], y)


@dataclass(frozen=True)
class Hits:
    """Pictures whose box is right with a probability; in groups it differs between them."""

    share: float
    n: int
    groups: Groups | None = None

    def figure(self, rng: np.random.Generator, draws: int) -> Figure:
        """Draw pictures, and return the share of hits."""
        return self.pair(rng, draws)[0]

    def pair(self, rng: np.random.Generator, draws: int) -> tuple[Figure, Figure]:
        """Draw pictures, and return the shares of hits of two runs, of which half of the pictures are decided alike."""
        group = Ranking("", 0, 0, self.n, self.groups).group_of_pictures(rng)
        chance = np.full(int(group[-1]) + 1, self.share)
        if self.groups:
            scale = (1 - self.groups.shared) / self.groups.shared
            chance = rng.beta(self.share * scale, (1 - self.share) * scale, len(chance))
        ids = tuple(map(str, range(len(group))))
        drawn = Draws.of(ids, int(rng.integers(2**31)), group, draws)
        luck = rng.random((2, len(group)))
        luck[1] = np.where(rng.random(len(group)) < 0.5, luck[0], luck[1])
        first, second = (share_figure(ClassHits(ids, one < chance[group]), drawn) for one in luck)
        return first, second


@dataclass(frozen=True)
class Boxes:
    """Detections: pictures with one to three objects, of which a share is found, and pictures without any.

    Attributes
    ----------
    found : float
        The share of objects with a true positive.
    distance : float
        Between the mean scores of true and false positives, of which each picture has one on average.
    n : int
    """

    found: float
    distance: float
    n: int

    def sample(self, rng: np.random.Generator) -> tuple[Detections, dict[str, GroundTruth]]:
        """Draw detections and ground truth; pictures differ in how hard their objects are."""
        ids, scores, boxes, truth = [], [], [], {}
        for picture in range(self.n):
            name, objects = str(picture), int(rng.integers(1, 4)) if picture % 2 == 0 else 0
            shift = np.array([[0.0, 200.0 * one, 0.0, 200.0 * one] for one in range(objects)]).reshape(-1, 4)
            truth[name] = GroundTruth(BOX + shift if objects else np.empty((0, 4)), np.zeros(objects, bool))
            hardness = rng.standard_normal() * 0.7
            hit = rng.random(objects) < self.found
            right = self.distance - hardness + rng.standard_normal(int(hit.sum()))
            wrong = rng.standard_normal(rng.poisson(1.0))
            scores += [*right, *wrong]
            boxes += (
                [*(BOX + shift)[hit], *np.repeat(FAR, len(wrong), 0)] if objects else [*np.repeat(FAR, len(wrong), 0)]
            )
            ids += [name] * (len(right) + len(wrong))
        return Detections(tuple(ids), np.array(scores), np.array(boxes).reshape(-1, 4)), truth

    def figures(self, rng: np.random.Generator, draws: int) -> dict[str, Figure]:
        """Draw pictures, and return the two APs."""
        detections, truth = self.sample(rng)
        result = evaluate_voc({"a": detections}, {"a": truth}).classes["a"]
        return detection_figures(
            result, detections, truth, Draws.of(list(truth), int(rng.integers(2**31)), None, draws)
        )

    def truth(self) -> dict[str, float]:
        """Return the APs of very many pictures."""
        return _ap_truth(replace(self, n=LARGE // 10))


@cache
def _ap_truth(boxes: Boxes) -> dict[str, float]:
    detections, truth = boxes.sample(np.random.default_rng(0))
    result = evaluate_voc({"a": detections}, {"a": truth}).classes["a"]
    return {"ap_11point": float(result.ap_11point or 0), "ap_area": float(result.ap_area or 0)}
