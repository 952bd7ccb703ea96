"""All 4,952 test pictures of VOC2007 with made-up detections: the compiled evaluation and its twin agree."""

import numpy as np
import pytest

from lapsvm.boxes import from_voc
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import corloc, evaluate_voc, pointing
from lapsvm.evaluation.boxes import matching

from ..twins import evaluation as reference
from ..twins.made_up_detections import made_up_detections

CLASSES = 20


@pytest.fixture(scope="module")
def ground_truth(real_data):
    """Class number -> image -> the objects that are not difficult, of the test set."""
    folder = real_data / "voc2007_text"
    images = {line.split()[0] for line in (folder / "ImageSets" / "Main" / "test.txt").read_text().splitlines()}
    text = "".join((folder / name).read_text() for name in ("voc2007test.txt", "voc2007.txt"))
    rows = {name.removesuffix(".jpg"): fields for name, *fields in map(str.split, text.splitlines())}
    table = {image: np.array(rows.get(image, []), dtype=float).reshape(-1, 5) for image in sorted(images)}
    return {str(number): {i: objects(row, number) for i, row in table.items()} for number in range(CLASSES)}


def objects(rows, number):
    here = rows[rows[:, 4] == number, :4]
    return GroundTruth(from_voc(here), np.zeros(len(here), dtype=bool))


@pytest.mark.slow
def test_compiled_and_reference_agree_on_all_of_voc2007_test(ground_truth, monkeypatch):
    assert {len(truth) for truth in ground_truth.values()} == {4952}
    found = {name: made_up_detections(truth, 20_000, int(name)) for name, truth in ground_truth.items()}
    fast, fast_corloc = evaluate_voc(found, ground_truth), corloc(found, ground_truth)
    pointed = pointing(found, ground_truth)
    monkeypatch.setattr(matching, "_kernel", reference)
    slow, slow_corloc = evaluate_voc(found, ground_truth), corloc(found, ground_truth)
    assert sum(result.npos for result in fast.classes.values()) == 12_032
    assert fast.rows() == slow.rows()
    assert fast_corloc.rows() == slow_corloc.rows()
    assert fast_corloc.mean_corloc < pointed.mean < 1
    for name, result in pointed.classes.items():
        assert result.hits.tolist() == reference.pointing_hits(found[name], ground_truth[name])
        assert not (fast_corloc.classes[name].hits & ~result.hits).any()
    for name, result in fast.classes.items():
        np.testing.assert_array_equal(result.matches.outcome, slow.classes[name].matches.outcome)
        np.testing.assert_array_equal(result.matches.partner, slow.classes[name].matches.partner)
        np.testing.assert_array_equal(result.matches.overlap, slow.classes[name].matches.overlap)
