"""Initial weights from windows against their surroundings, for ``--init contrast``.

What the start sees is separate from what training sees. Start weights rank the pictures by the mean of their windows
less gamma times the mean of their surroundings. The larger gamma is, the more closely windows fit the object, until
training flips and takes windows beside it (see `lapsvm.latent.evidence`). So every class is trained from each strength
of `CONTRASTS`, side by side, and the strongest before the flip is taken. No box is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags
from lapsvm.features import ShardSet, open_shards
from lapsvm.latent import LatentProblem, LatentSolution, fit_many
from lapsvm.latent.evidence import content_evidence, is_flipped, strongest_unflipped

from ..run.context import RunContext
from .trainer import Trainer
from .training_bags import Halves

CONTRASTS = (0.0, 0.8, 0.85, 0.9)  # windows' regression on their surroundings has .79 to .85 on three sets
START_C, _LOOSE = 10.0, 0.01  # of the weights that only choose the first windows
_SAMPLE = 8192  # windows that stand for all


class StoredContent:
    """The windows of bags with both halves: the evidence of their content, and their means.

    Parameters
    ----------
    bags : Bags
        The pictures with their features as stored; scaled or not.
    halves : Halves
    """

    def __init__(self, bags: Bags, halves: Halves) -> None:
        self._bags, self.halves, self._inside = bags, halves, halves.inside
        self._sample = self._content(*_spread_windows(bags.offsets))

    def evidence(self, weights: Float64, pictures: Index, windows: Index) -> float:
        """Return the evidence of these windows of these pictures, for weights (d,) of the stored features."""
        content = weights[self._inside]
        return content_evidence(self._content(pictures, windows) @ content, self._sample @ content)

    def means(self, contrast: float) -> Float64:
        """Return each picture's mean window less `contrast` times the mean of the surroundings (n_pictures, k)."""
        return replace(self.halves, contrast=contrast).combine(self._means)

    @cached_property
    def _means(self) -> Float64:
        """The mean (n_pictures, d) of each picture's stored windows, from one pass over all of them."""
        return self._bags.means()

    def _content(self, pictures: Index, windows: Index) -> Float64:
        """Return the first halves of windows (m, k)."""
        parts = np.array_split(np.arange(len(pictures)), len(pictures) // 1024 + 1)
        return np.concatenate([self._bags.rows(pictures[part], windows[part])[:, self._inside] for part in parts])


def _spread_windows(offsets: Index) -> tuple[Index, Index]:
    """Return pictures and windows, evenly over all windows."""
    rows = np.unique(np.linspace(0, offsets[-1] - 1, _SAMPLE).astype(np.intp))
    pictures = np.searchsorted(offsets, rows, side="right") - 1
    return pictures, rows - offsets[pictures]


@dataclass(frozen=True)
class Started:
    """The start of a training.

    Attributes
    ----------
    weights, plain : (d,) float64
        Initial weights of the chosen contrast, and of content alone, which has no flip.
    solution : LatentSolution
        Of training from `weights`.
    contrast : float
    evidence : float
        Of training from content alone.
    """

    weights: Float64
    plain: Float64
    solution: LatentSolution
    contrast: float
    evidence: float


class ContrastStart:
    """Chooses starts for problems on combined features of stored windows (see `Halves.combine`).

    Parameters
    ----------
    stored : StoredContent
        Of the pictures as stored, without scale.
    bags : Bags
        The same pictures, combined and scaled.
    """

    def __init__(self, stored: StoredContent, bags: Bags) -> None:
        self._stored, self._bags = stored, bags

    def starts(self, problems: Sequence[LatentProblem], trainer: Trainer) -> list[Started]:
        """Return the start of each problem, from training with each of `CONTRASTS`."""
        found = self.trained(problems, CONTRASTS, trainer)
        return [self._chosen(problem, *pair) for problem, pair in zip(problems, found, strict=True)]

    def trained(
        self, problems: Sequence[LatentProblem], contrasts: Sequence[float], trainer: Trainer
    ) -> list[tuple[list[Float64], list[LatentSolution]]]:
        """Return, of each problem, the initial weights and the solution for each contrast of the start."""
        means = [self._stored.means(contrast) * self._bags.scale for contrast in contrasts]
        first = [weights for vectors in means for weights in _ranking_weights(problems, vectors)]
        solutions = trainer.fit(
            [replace(problem, init=weights) for problem, weights in zip(len(means) * [*problems], first, strict=True)],
            self._bags,
        )
        return [(first[number :: len(problems)], solutions[number :: len(problems)]) for number in range(len(problems))]

    def _chosen(self, problem: LatentProblem, first: Sequence[Float64], solutions: Sequence[LatentSolution]) -> Started:
        evidence = [self.evidence(problem, solution) for solution in solutions]
        best = strongest_unflipped(CONTRASTS, evidence)
        return Started(first[best], first[0], solutions[best], CONTRASTS[best], evidence[0])

    def evidence(self, problem: LatentProblem, solution: LatentSolution) -> float:
        """Return the evidence of the content of a solution's windows."""
        positives = np.flatnonzero(np.asarray(problem.y) > 0)
        weights = self._stored.halves.unfold(solution.coef * self._bags.scale)
        return self._stored.evidence(weights, positives, solution.windows[positives])


def _ranking_weights(problems: Sequence[LatentProblem], vectors: Float64) -> list[Float64]:
    """Return weights that rank the pictures of each problem by one vector per picture."""
    first = np.zeros(len(vectors), dtype=np.intp)
    loose = [LatentProblem(problem.y, C=START_C, init=first, tol=_LOOSE) for problem in problems]
    return [solution.coef for solution in fit_many(loose, Bags(vectors, np.arange(len(vectors) + 1)), candidates=0)]


def obstacle(shards: ShardSet, bags: Bags) -> str:
    """Return why training on `bags` cannot start from windows against their surroundings; empty if it can."""
    if not any(shards.provenance["features"]["extractor"]["halves"]):
        return "features of networks with --beside"
    return "" if bags.n_windows == shards.n_windows else "all windows, not those of --keep-windows"


def open_contrast_start(context: RunContext, bags: Bags) -> ContrastStart | None:
    """Return what chooses starts on training pictures, None where features have no surroundings or windows are missing.

    The stored windows stay in their files, of which few rows are read, apart from one pass for the means.
    """
    shards = open_shards(context.run.shards(context.settings.data.train_set))
    halves = Halves.of(shards, context.settings.features.contrast)
    if obstacle(shards, bags):
        return None
    # never on a cluster: workers hold one store, so a second one would make them reload their shards in turns
    stored = Bags.open(context.run.path, context.settings.data.train_set, memory=0, threads=context.threads)
    return ContrastStart(StoredContent(stored, halves), bags)


class ContrastStarts:
    """The starts of many problems, of which those that differ in C alone share one, and what guards the trainings.

    Parameters
    ----------
    contrast : ContrastStart
    problems : sequence of LatentProblem
    C : float
        Weight of the loss in the trainings that choose starts.
    trainer : Trainer
    """

    def __init__(self, contrast: ContrastStart, problems: Sequence[LatentProblem], C: float, trainer: Trainer) -> None:
        self._contrast, self.C = contrast, C
        distinct = {_key(problem): replace(problem, C=C) for problem in problems}
        found = contrast.starts(list(distinct.values()), trainer)
        self._found = dict(zip(distinct, found, strict=True))

    def of(self, problem: LatentProblem) -> Started:
        """Return the start of a problem."""
        return self._found[_key(problem)]

    def any_flipped(self, problem: LatentProblem, solutions: Sequence[LatentSolution]) -> bool:
        """Return whether any training flipped that did not start from content alone."""
        return self.of(problem).contrast > 0 and any(self.is_flipped(problem, solution) for solution in solutions)

    def is_flipped(self, problem: LatentProblem, solution: LatentSolution) -> bool:
        """Return whether a training takes windows beside the objects, which its start did not."""
        return is_flipped(self._contrast.evidence(problem, solution), self.of(problem).evidence)


def _key(problem: LatentProblem) -> tuple[bytes, str, float]:
    """Return what tells problems apart whose trainings differ in more than C."""
    return np.asarray(problem.y).tobytes(), repr(problem.risk), problem.trim


def start_names(problems: Sequence[LatentProblem], classes: Sequence[str]) -> list[str]:
    """Return the class of each training with which `ContrastStarts` chooses the starts of problems."""
    first = {_key(problem): name for problem, name in zip(reversed(problems), reversed(classes), strict=True)}
    return [first[key] for key in dict.fromkeys(map(_key, problems))] * len(CONTRASTS)


def start_sentence(title: str, names: Sequence[str], starts: Sequence[Started]) -> str:
    """Return a sentence that names the contrast of every class's start."""
    each = ", ".join(f"{name} {start.contrast:g}" for name, start in zip(names, starts, strict=True))
    return f"{title}: starts at the strongest contrast before training flips: {each}."
