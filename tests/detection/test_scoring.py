"""The inputs of scores beside the models: the same from a record and from a prediction, with every part."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lapsvm.detection import AlarmThreshold, Detector
from lapsvm.detection.scoring import recorded_scoring, scoring_difference, used_scoring
from lapsvm.errors import ModelFileError
from lapsvm.settings import DetectSettings, ProposalSettings
from lapsvm.windows.proposals import WINDOWS_VERSION

WINDOWS = {
    "method": "selective_search", "mode": "fast", "max_windows": 2000, "max_area": 1.0, "proposal_side": 512,
    "max_side": 2048, "seed": 3, "version": WINDOWS_VERSION,
}  # fmt: skip
NETWORK = {"kind": "network", "size": 448, "runtime": "onnxruntime 1", "blocks": [2], "has_context": [False]}
RULE = {"nms_threshold": 0.3, "max_detections": 100, "demotion": 1.0, "score_smoothing": 0.5, "box_voting": 0.7}


DEFAULT = ProposalSettings()


def detector(windows=(), network=(), rule=()):
    features = {"dtype": "float16", "extractor": NETWORK | dict(network)}
    provenance = {"shards": {"windows": WINDOWS | dict(windows), "features": features}, "detection": RULE | dict(rule)}
    return Detector("crack", [1.0, 2.0], provenance=provenance)


def extractor(**changes):
    described = {key: value for key, value in NETWORK.items() if key not in ("blocks", "has_context")} | changes
    return SimpleNamespace(describe=lambda: described, blocks=(SimpleNamespace(size=2, has_context=False),))


def used(windows=DEFAULT, seed=3, network=None, rule=None):
    return used_scoring(
        windows, seed, network or extractor(), rule or DetectSettings(demotion=1.0, score_smoothing=0.5)
    )


ALARM = AlarmThreshold(0.5, 0.05, {}, scoring=recorded_scoring(detector()))


def test_a_prediction_as_the_model_records_differs_in_nothing():
    assert scoring_difference(ALARM, detector(), used()) == ""
    assert scoring_difference(ALARM, detector()) == ""
    assert scoring_difference(ALARM, detector(), used(network=extractor(runtime="onnxruntime 2"))) == ""
    boxes = DetectSettings(demotion=1.0, score_smoothing=0.5, nms_threshold=0.7, max_detections=1, box_voting=0.2)
    assert scoring_difference(ALARM, detector(), used(rule=boxes)) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        *((used(replace(ProposalSettings(), **{name: value})), f"windows.{name}") for name, value in {
            "method": "contrast", "mode": "quality", "max_windows": 100, "max_area": 0.5, "proposal_side": 256,
            "max_side": 640,
        }.items()),
        (used(seed=4), "windows.seed 3 instead of 4"),
        (used(network=extractor(size=640)), "extractor.size 448 instead of 640"),
        (used(rule=DetectSettings(demotion=1.0)), "detection.score_smoothing 0.5 instead of 0.0"),
        (used(rule=DetectSettings(score_smoothing=0.5)), "detection.demotion 1.0 instead of 0.0"),
    ],
)  # fmt: skip
def test_what_changes_a_score_is_named(changed, said):
    assert said in scoring_difference(ALARM, detector(), changed)
    assert said in scoring_difference(replace(ALARM, scoring=None), detector(), changed)


def test_a_model_that_records_otherwise_than_the_threshold_is_named():
    assert "windows.seed 3 instead of 9" in scoring_difference(ALARM, detector({"seed": 9}))
    assert "extractor.size" in scoring_difference(ALARM, detector(network={"size": 320}))
    assert scoring_difference(replace(ALARM, scoring=None), detector({"seed": 9})) == ""


def test_windows_of_another_version_differ_where_they_are_searched():
    old = AlarmThreshold(0.5, 0.05, {}, scoring=recorded_scoring(detector({"version": WINDOWS_VERSION - 1})))
    assert "windows.version" in scoring_difference(old, detector(), used())
    grid = detector({"version": WINDOWS_VERSION - 1, "method": "grid"})
    found = AlarmThreshold(0.5, 0.05, {}, scoring=recorded_scoring(grid))
    assert scoring_difference(found, grid, used(ProposalSettings("grid"))) == ""


def test_the_extractor_below_a_projection_counts():
    provenance = detector().provenance
    features = {"extractor": {"kind": "projection", "components": "0" * 32, "of": NETWORK}}
    projected = replace(detector(), provenance=provenance | {"shards": provenance["shards"] | {"features": features}})
    assert recorded_scoring(projected) == recorded_scoring(detector())


def test_a_model_that_no_run_made_records_nothing():
    with pytest.raises(ModelFileError, match="must have the provenance of a run"):
        recorded_scoring(Detector("crack", [1.0, 2.0]))
