"""What a model's provenance says of its training, where somebody changed it."""

import json

import pytest
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.errors import ModelFileError
from lapsvm.model_files import read_model, write_model

RESULT = {"C": 1.0, "held_out_image_ap": [{"C": 1.0, "folds": [0.5, None]}]}
CHANGES = [
    {"C": "1"},
    {"C": float("inf")},
    {"duality_gap": []},
    {"held_out_image_ap": 3},
    {"held_out_image_ap": [{}]},
    {"held_out_image_ap": [{"folds": 3}]},
    {"held_out_image_ap": [{"folds": []}]},
    {"held_out_image_ap": [{"folds": ["x"]}]},
]


def test_results_of_a_training_are_given():
    detector = Detector("cat", [1.0], provenance={"result": RESULT})
    assert provenance_value(detector, "result") == RESULT
    assert provenance_value(detector, "result", "C") == 1.0


@pytest.mark.parametrize("change", CHANGES)
def test_results_that_are_none_are_refused(change):
    detector = Detector("cat", [1.0], provenance={"result": RESULT | change})
    with pytest.raises(
        ModelFileError, match=rf"model 'cat' is damaged: ({next(iter(change))}|result) in its provenance"
    ):
        provenance_value(detector, "result", "C")


@pytest.mark.parametrize("result", [None, [], "x"])
def test_a_result_of_another_kind_is_refused(result):
    with pytest.raises(ModelFileError, match="model 'cat'"):
        provenance_value(Detector("cat", [1.0], provenance={"result": result}), "result")


@pytest.mark.parametrize(
    "change",
    [{"J": "x"}, {"boxes_moved": "x"}, {"telling_parts": "x"}, {"held_out_image_ap": [{"folds": ["x"]}]}, {"C": {}}],
)
def test_a_page_of_a_changed_model_is_one_sentence(run_copy, refused, change):
    path = run_copy / "models" / "six.safetensors"
    description, tensors = read_model(path, "lapsvm detector", 1)
    description["provenance"]["result"] |= change
    write_model(path, description, tensors, "x")
    assert "model 'six' is damaged" in refused("report", "--out", run_copy)


@pytest.mark.parametrize(
    "edit",
    [
        lambda entry: entry["mean"].update(ap_area="x"),
        lambda entry: entry.update(errors=[]),
        lambda entry: entry["errors"]["six"].update(background={"top": 1.5}),
        lambda entry: entry["intervals"].update(level="x"),
        lambda entry: entry["windows"].update(classes=3),
        lambda entry: entry.update(intervals={}),
    ],
)
def test_figures_that_somebody_changed_are_left_out_of_the_page(run_copy, command, edit):
    path = RunFolder(run_copy).evaluation_file
    content = json.loads(path.read_text())
    edit(content["sets"]["test"])
    path.write_text(json.dumps(content))
    assert command("report", "--out", run_copy).status == 0
