"""From the pixels of a new picture to boxes: windows, features, scores, detections and probabilities."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lapsvm.arrays import Array, check_count
from lapsvm.catalog import Pixels, is_plain
from lapsvm.detection import model_sources
from lapsvm.detection.detector import Detector, provenance_value
from lapsvm.detection.picture_scores import Detected
from lapsvm.detection.prepared import PreparedWindows, as_pixels, prepare_windows, propose_and_prepare, window_scores
from lapsvm.detection.score_maps import ScoreMap
from lapsvm.detection.scored_picture import ScoredPicture
from lapsvm.detection.scoring import picture_detectors, used_scoring
from lapsvm.errors import InputError, SettingsError
from lapsvm.features import Extractor
from lapsvm.inspection.decision import Decision
from lapsvm.inspection.shown import Shown
from lapsvm.settings import DetectSettings, ProposalSettings
from lapsvm.windows.packages import check_package
from lapsvm.windows.proposals import picture_windows, reduced

if TYPE_CHECKING:
    from lapsvm.objectness.good_pictures import GoodPictures, Unlike

_SHOWN = 5  # classes in its repr
ModelPaths = str | Path | Sequence[str | Path]
Picture = Any
"""A path, a picture of Pillow, or an array (h, w, 3) of uint8: see `lapsvm.detection.prepared.as_pixels`."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """Detects objects in new pictures by trained models that share their windows and features; thread-safe.

    `Predictor.open` makes one from files. Called with a picture, it returns the boxes of every class.

    Parameters
    ----------
    detectors : sequence of Detector
        One per class, of the features before projection (`Detector.whole`). None where good pictures alone decide:
        then no window is proposed, and there are no boxes.
    extractor : Extractor
    windows : ProposalSettings
    seed : int
        Seed of the windows.
    detection : sequence of DetectSettings
        How the scores of each detector become boxes.
    shown : Shown, optional
        The rule by which boxes are shown, with the stored threshold of ``lapsvm threshold``, if there is one, as its
        `alarm`.
    good : GoodPictures, optional
        The memory of good pictures, if the threshold has one: then a decision may be "unknown".

    Examples
    --------
    >>> found = Predictor.open("RUN")("photo.jpg")  # doctest: +SKIP
    >>> found["cat"].boxes, found["cat"].probabilities  # doctest: +SKIP
    """

    detectors: Sequence[Detector]
    extractor: Extractor
    windows: ProposalSettings
    seed: int
    detection: Sequence[DetectSettings]
    shown: Shown = field(default_factory=Shown)
    good: "GoodPictures | None" = None

    def __repr__(self) -> str:
        names = [detector.class_name for detector in self.detectors]
        classes = ", ".join([*names[:_SHOWN], *([f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else [])])
        rule = "" if self.shown.alarm is None else f", ok below {self.shown.alarm.probability:.3g}"
        return f"Predictor({classes}: {self.extractor.dim:,} features of {self.windows.method} windows{rule})"

    @classmethod
    def open(
        cls, models: ModelPaths, *, extractor: str | Sequence[str] | None = None, windows: str | None = None,
        seed: int | None = None, device: str = "auto", threshold: float | None = None, max_detections: int = 10,
        **detection: Any,
    ) -> Self:  # fmt: skip
        """Open the models of a run, with the windows, features and detection that they record.

        A threshold that ``lapsvm threshold`` has stored beside them is used if it was chosen for them, and by the
        windows, seed, features and settings of scores that are used here; a warning says where it is not.

        Parameters
        ----------
        models : path, or sequence of paths
            Run folders, model files, or folders of them.
        extractor : str or sequence of str, optional
            Replaces the extractor of the models; code of a module that it names is run.
        windows : str, optional
            A method of `lapsvm.windows.propose` that replaces that of the models.
        seed : int, optional
            Replaces the seed of the models.
        device : "auto", "cpu" or "cuda"
            Where torch runs a network.
        threshold : float, optional
            Least probability of a box, in [0, 1], 0 for all; by default as `lapsvm.inspection.shown.Shown` says. It
            changes no decision.
        max_detections : int, default 10
            Largest number of boxes per picture and class.
        **detection
            Other fields of `lapsvm.settings.DetectSettings` that replace those that the models record.

        Returns
        -------
        Predictor

        Raises
        ------
        MissingError
            If a file is missing, a folder holds no model, or an extractor's file is not known.
        ModelFileError
            If a model or a stored threshold is damaged, or no run made the model.
        SettingsError
            If models do not fit together, or their windows or features exist for the pictures of their run alone, or a
            threshold needs probabilities that a model lacks.
        InputError
            If an argument breaks its rule, or the extractor gives other features.
        """
        paths = model_sources.model_paths(models)
        files = model_sources.model_files(paths)
        loaded = model_sources.load_models(files)
        detectors = [detector.whole for detector in loaded]
        of_models = files[: len(loaded)]
        model_sources.check_together(detectors, of_models)
        model_sources.check_threshold(detectors, of_models, threshold)
        first = model_sources.recorded_run(detectors, files)
        texts = [extractor] if isinstance(extractor, str) else extractor
        proposals = model_sources.proposal_settings(first, files[0], windows)
        check_package(proposals.method)
        opened = model_sources.open_model_extractor(first, files[0], texts, device)
        changes = {"max_detections": max_detections, **detection}
        rules = [
            model_sources.recorded_detect_settings(*pair, changes) for pair in zip(detectors, of_models, strict=True)
        ]
        chosen = provenance_value(first, "shards", "windows", "seed") if seed is None else seed
        used = [used_scoring(proposals, chosen, opened, rule) for rule in rules]
        shown = Shown(threshold, model_sources.stored_alarm(loaded, files, used))
        good = model_sources.stored_memory(shown.alarm, files[0].parent, opened)
        if not detectors and good is None:
            raise SettingsError(
                f"threshold {files[0]} by good pictures alone needs their memory; run lapsvm threshold."
            )
        return cls(detectors, opened, proposals, chosen, rules, shown, good)

    def __call__(self, picture: Picture) -> dict[str, Detected]:
        """Return the boxes of every class in a picture.

        Parameters
        ----------
        picture : path, PIL.Image.Image, or ndarray of shape (h, w, 3), uint8 RGB

        Returns
        -------
        dict of str to Detected
            Class -> boxes (n, 4) x1, y1, x2, y2 in pixels, 0-based and half-open, scores (n,) and probabilities (n,) or
            None, the best first. A class without boxes has empty arrays; `shown` decides which boxes of low probability
            there are. In a picture of one colour all probabilities are 0.

        Raises
        ------
        MissingError, ImageError
            If a file is missing, or cannot be read as a picture.
        InputError, ShapeError
            If it is something else, or an array is no picture.
        """
        return self.scored(picture).detections()

    def decision(self, picture: Picture) -> Decision | None:
        """Decide whether a picture is ok, which class it shows, or that it shows something unknown.

        None if no threshold is stored with the models.

        Parameters
        ----------
        picture : path, PIL.Image.Image or ndarray
            As for a call, with the same errors.
        """
        return self.scored(picture).decision()

    verdict = decision  # its former name

    def scored(self, picture: Picture, threads: int = 1) -> ScoredPicture:
        """Return a picture with the scores of its windows, for detections, decision and score maps.

        Parameters
        ----------
        picture : path, PIL.Image.Image or ndarray
            As for a call, with the same errors.
        threads : int, default 1
            With more than one, windows are proposed while the network sees the picture, at all sizes at once. The
            result is the same.
        """
        count, pixels = check_count("threads", threads), as_pixels(picture)
        if not self.detectors:
            return self._without_windows(pixels)
        propose = partial(self.propose, pixels)
        prepared = propose_and_prepare(pixels, propose, self.windows.max_side, self.extractor, count)
        return self._scored_windows(pixels, prepared)

    def score_maps(self, picture: Picture) -> dict[str, ScoreMap]:
        """Return where in a picture every class scores.

        Parameters
        ----------
        picture : path, PIL.Image.Image or ndarray
            As for a call, with the same errors.

        Returns
        -------
        dict of str to ScoreMap
            Class -> float32 values (h, w): probabilities where the class's model has a calibration, so that the scale
            of 0 to 1 holds for all pictures, or scores. The largest value is that of the picture's best window.
        """
        scored = self.scored(picture)
        return {detector.class_name: scored.score_map(detector.class_name) for detector in self.detectors}

    def propose(self, picture: Picture) -> Array:
        """Return the windows of a picture that a call scores, float32 (n, 4) in its pixels.

        They are those of the method and the sizes that the models record.
        """
        return picture_windows(as_pixels(picture), self.windows, self.seed)

    def among(self, picture: Picture, boxes: Array) -> dict[str, Detected]:
        """Return the boxes of every class among some windows of a picture, float32 (n, 4), as a call does."""
        pixels = as_pixels(picture)
        windows = prepare_windows(pixels, boxes, self.windows.max_side, self.extractor)
        return self._scored_windows(pixels, windows).detections()

    def _scored_windows(self, pixels: Pixels, prepared: PreparedWindows) -> ScoredPicture:
        """Return a picture with the scores of prepared windows."""
        scores = window_scores(prepared, self.detectors, self.extractor)
        rules = self.detection, self.shown, is_plain(pixels), self._picture_scores(prepared)
        return ScoredPicture(
            prepared.size, prepared.boxes, scores, self.detectors, *rules, self._unlike(pixels), pixels
        )

    def _without_windows(self, pixels: Pixels) -> ScoredPicture:
        """Return a picture of which good pictures alone say something."""
        size, none = (pixels.shape[0], pixels.shape[1]), np.empty((0, 4), np.float32)
        unlike = self._unlike(pixels)
        return ScoredPicture(size, none, np.empty((0, 0)), (), (), self.shown, is_plain(pixels), unlike=unlike)

    def _unlike(self, pixels: Pixels) -> "Unlike | None":
        """Return how unlike good pictures a picture is; None without a memory of these."""
        if self.good is None:
            return None
        from lapsvm.objectness.good_pictures import Unlike, parts_of

        parts = parts_of(self.good.network, reduced(pixels, self.windows.max_side))
        return Unlike(self.good.map(parts), (pixels.shape[0], pixels.shape[1]))

    def _picture_scores(self, prepared: PreparedWindows) -> dict[str, float]:
        """Return the scores of the whole picture by the picture models of the alarm.

        They take a pass of their own, so that the scores of windows have the same bits with and without them.
        """
        models = picture_detectors(self.shown.alarm, self.detectors)
        if not models or not len(prepared.boxes):
            return {}
        scores = window_scores(prepared, models, self.extractor)
        return dict(zip([model.class_name for model in models], scores.mean(axis=0).tolist(), strict=True))

    def many(self, pictures: Iterable[Picture], threads: int | None = None) -> Iterator[dict[str, Detected]]:
        """Yield the boxes in each of several pictures, in their order.

        Parameters
        ----------
        pictures : iterable of paths, PIL.Image.Image or arrays
            As for a call.
        threads : int, optional
            Pictures at a time, 1 or more; by default as many as there are processors.

        Raises
        ------
        InputError
            If `threads` is no whole number above 0, or `pictures` cannot be iterated, or is a single path. The errors
            of a call come with the picture that has them.
        """
        count = (os.cpu_count() or 1) if threads is None else check_count("threads", threads)
        if isinstance(pictures, str | bytes | Path) or not isinstance(pictures, Iterable):
            raise InputError(f"pictures must be a sequence of pictures, got {type(pictures).__name__}.")
        return self._each(pictures, count)

    def _each(self, pictures: Iterable[Picture], threads: int) -> Iterator[dict[str, Detected]]:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(self, pictures)
