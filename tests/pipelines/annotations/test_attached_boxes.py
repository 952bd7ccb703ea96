"""--boxes: boxes of some pictures for any data set, for evaluation alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.annotations.known_boxes import BoxSource, attach_boxes
from lapsvm.pipelines.figures.evaluation import evaluate_set

from lapsvm.catalog import ImageRecord, open_dataset, truth_by_class
from lapsvm.errors import AnnotationError, MissingError
from lapsvm.evaluation import as_coco, coco_rows, corloc, evaluate_voc, read_results

RECORDS = {
    "trainval": [
        ImageRecord("cat/1", Path("/data/trainval/cat/1.jpg"), {"cat": 1, "dog": -1}),
        ImageRecord("dog/1", Path("/data/trainval/dog/1.jpg"), {"cat": -1, "dog": 1}),
    ],
    "test": [ImageRecord("cat/2", Path("/data/test/cat/2.jpg"), {"cat": 1, "dog": -1})],
}
CLASSES = ("cat", "dog")
CATEGORIES = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}, {"id": 3, "name": "tree"}]
XML = (
    "<annotation><path>{path}</path><object><name>cat</name><bndbox><xmin>{0}</xmin><ymin>{1}</ymin>"
    "<xmax>{2}</xmax><ymax>{3}</ymax></bndbox></object></annotation>"
)


def coco(folder, names, objects, **more):
    """Write a COCO file: objects are (number of the picture, category, bbox)."""
    annotations = [
        {"id": number, "image_id": picture, "category_id": category, "bbox": box, **more}
        for number, (picture, category, box) in enumerate(objects)
    ]
    images = [{"id": number, "file_name": name} for number, name in enumerate(names)]
    path = folder / "boxes.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": CATEGORIES}))
    return str(path)


def voc(folder, **corners):
    """Write VOC files: name -> (path in the file, corners)."""
    for name, (path, box) in corners.items():
        file = folder / "voc" / f"{name}.xml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(XML.format(*box, path=path))
    return str(folder / "voc")


def truth_of(attached):
    """Class -> picture -> objects of the test set, as evaluation takes them."""
    known = attached.pictures["test"]
    return truth_by_class({record.id: known.get(record.id, []) for record in RECORDS["test"]}, CLASSES)


def test_boxes_of_a_coco_file_are_attached(tmp_path):
    path = coco(tmp_path, ["x/2.jpg", "dog/1.png"], [(0, 1, [10, 20, 30, 40]), (1, 2, [1, 2, 3, 4])])
    attached = attach_boxes(path, RECORDS, CLASSES)
    truth = truth_of(attached)
    np.testing.assert_array_equal(truth["cat"]["cat/2"].boxes, [[10, 20, 40, 60]])
    assert truth["dog"]["cat/2"].boxes.shape == (0, 4)
    assert {name: list(of) for name, of in attached.pictures.items()} == {"trainval": ["dog/1"], "test": ["cat/2"]}
    assert attached.sentences == (f"boxes {path}: 2 of 2 pictures are the run's",)


def test_boxes_of_voc_files_are_attached_by_file_name_or_path(tmp_path):
    path = voc(tmp_path, **{"2": ("", (11, 21, 40, 60)), "cat__1": ("/other/cat/1.jpg", (1, 1, 2, 2))})
    attached = attach_boxes(path, RECORDS, CLASSES)
    assert attached.pictures["test"] == {"cat/2": [("cat", (10, 20, 40, 60), False)]}
    assert list(attached.pictures["trainval"]) == ["cat/1"]


def test_what_is_left_out_is_told_in_a_sentence_each(tmp_path):
    path = coco(
        tmp_path,
        ["2.jpg", "1.jpg", "9.jpg", "dog/1.jpg"],
        [(0, 2, [1, 1, 2, 2]), (0, 3, [1, 1, 2, 2]), (2, 1, [1, 1, 2, 2])],
    )
    assert attach_boxes(path, RECORDS, CLASSES).sentences == (
        f"boxes {path}: 2 of 4 pictures are the run's",
        f"boxes {path}: 1 are no pictures of the run and are left out: '9.jpg'",
        f"boxes {path}: 1 may be several pictures of the run, or share one, and are left out: '1.jpg'",
        f"boxes {path}: 1 boxes are of no class of the run and are left out: 'tree'",
        f"boxes {path}: 1 pictures have a box of a class that their label denies: 'cat/2'",
        f"boxes {path}: 2 pictures have no box of a class that they are labelled with: 'cat/2', 'dog/1'",
    )


def test_a_picture_that_is_given_twice_counts_once_or_is_named(tmp_path):
    names, box, other = ["2.jpg", "images/2.jpg"], [10, 20, 30, 40], [10, 20, 30, 41]
    path = coco(tmp_path, names, [(0, 1, box), (1, 1, box), (1, 1, box)])
    attached = attach_boxes(path, RECORDS, CLASSES)
    assert attached.pictures["test"] == {"cat/2": [("cat", (10, 20, 40, 60), False)]}
    assert attached.sentences == (
        f"boxes {path}: 1 boxes are given twice and count once",
        f"boxes {path}: 2 of 2 pictures are the run's",
    )
    path = coco(tmp_path, names, [(0, 1, box), (1, 1, other)])
    attached = attach_boxes(path, RECORDS, CLASSES)
    assert attached.pictures["test"] == {}
    said = "2 are entries of one picture with different boxes, of which none are taken: '2.jpg', 'images/2.jpg'"
    assert attached.sentences == (f"boxes {path}: 0 of 2 pictures are the run's", f"boxes {path}: {said}")


def test_parts_of_objects_are_counted(tmp_path):
    path = voc(tmp_path, **{"2": ("", (11, 21, 40, 60))})
    file = Path(path, "2.xml")
    part = "<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part>"
    file.write_text(file.read_text().replace("</object>", f"{part * 3}</object>"))
    attached = attach_boxes(path, RECORDS, CLASSES)
    assert attached.sentences[0] == f"boxes {path}: 3 parts of objects are no objects and are passed over"


def test_crowd_regions_are_difficult_and_masks_are_ignored(tmp_path):
    path = coco(tmp_path, ["2.jpg"], [(0, 1, [1, 1, 2, 2])], iscrowd=1, segmentation={"counts": [4], "size": [2, 2]})
    truth = truth_of(attach_boxes(path, RECORDS, CLASSES))
    assert truth["cat"]["cat/2"].difficult.tolist() == [True]
    assert attach_boxes(path, RECORDS, CLASSES).sentences[0] == f"boxes {path}: 1 crowd regions count as difficult"


def test_annotations_without_a_usable_box_are_counted_and_left_out(tmp_path):
    path = coco(tmp_path, ["2.jpg"], [(0, 1, [1, 1, 2, 2]), (0, 1, [1, 1, 0, 2]), (0, 1, None), (0, 9, [1, 1, 2, 2])])
    attached = attach_boxes(path, RECORDS, CLASSES)
    assert attached.pictures["test"] == {"cat/2": [("cat", (1, 1, 3, 3), False)]}
    assert attached.sentences[0] == (
        f"boxes {path}: 3 of 4 annotations are left out of evaluation (1 with an empty box, 1 without a box, "
        "1 of a category that the file does not list)"
    )


BAD = {
    "unknown pictures": (lambda folder: coco(folder, ["9.jpg"], []), "must name a picture of the run, but none"),
    "unknown classes": (
        lambda folder: coco(folder, ["2.jpg"], [(0, 3, [1, 1, 2, 2])]),
        "must be of the run's classes 'cat', 'dog', got 'tree'",
    ),
    "unknown category": (
        lambda folder: coco(folder, ["2.jpg"], [(0, 8, [1, 1, 2, 2])]),
        "must have a usable box, but 1 of 1 annotations are left out",
    ),
    "empty box": (
        lambda folder: coco(folder, ["2.jpg"], [(0, 1, [1, 1, 0, 2])]),
        r"left out of evaluation \(1 with an empty box\)",
    ),
    "empty VOC box": (
        lambda folder: voc(folder, **{"2": ("", (9, 1, 8, 5))}),
        r"must have a usable box, but 1 of 1 annotations are left out of evaluation \(1 with an empty box\)",
    ),
    "no pictures": (lambda folder: coco(folder, [], []), "but hold no picture"),
    "no files": (str, "but hold no .xml file; a COCO file is named itself"),
    "one VOC file": (
        lambda folder: write(folder / "2.xml", "<annotation/>"),
        r"must be a COCO file \(.json\) or a folder of VOC annotations \(.xml\), got a .xml file",
    ),
    "a table": (lambda folder: write(folder / "boxes.csv", "image,x1"), "got a .csv file"),
    "no JSON": (lambda folder: write(folder / "boxes.json", "{"), "cannot be read as JSON"),
    "broken XML": (lambda folder: str(write(folder / "voc.xml", "<annotation>").parent), "is no XML that can be read"),
}  # fmt: skip


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(("make", "words"), BAD.values(), ids=BAD)
def test_broken_boxes_are_one_sentence(tmp_path, make, words):
    with pytest.raises(AnnotationError, match=words) as raised:
        attach_boxes(str(make(tmp_path)), RECORDS, CLASSES)
    assert str(raised.value).endswith(".")


def test_hidden_files_are_no_annotations(tmp_path):
    folder = voc(tmp_path, **{"2": ("", (1, 1, 8, 5))})
    write(Path(folder, "._2.xml"), "of an archive")
    assert attach_boxes(folder, RECORDS, CLASSES)


def test_boxes_that_are_not_there_name_the_option(tmp_path):
    with pytest.raises(MissingError, match="name the file or folder with --boxes"):
        attach_boxes(str(tmp_path / "nowhere"), RECORDS, CLASSES)


def some_annotations(digits, folder, set_name, count):
    """Copy the annotations of the first pictures of a set that show a class, and return the pictures' ids."""
    ids = [r.id for r in open_dataset("voc", digits).records(set_name) if 1 in (r.labels["six"], r.labels["three"])]
    folder.mkdir(exist_ok=True)
    for image_id in ids[:count]:
        shutil.copy(digits / "Annotations" / f"{image_id}.xml", folder)
    return ids[:count]


def test_figures_are_over_the_pictures_that_have_boxes(digits, run_copy, tmp_path, command):
    chosen = {name: some_annotations(digits, tmp_path / "boxes", name, 5) for name in ("trainval", "test")}
    before = json.loads((run_copy / "evaluation.json").read_text())["sets"]
    result = command("evaluate", "--out", run_copy, "--boxes", tmp_path / "boxes")
    assert result.status == 0
    assert "set test: boxes are known of 5 of 20 pictures; detection AP and CorLoc are over these" in result.err
    after = json.loads((run_copy / "evaluation.json").read_text())["sets"]
    assert (after["test"]["pictures"], after["test"]["with_boxes"], after["test"]["left_out"]) == (20, 5, 0)
    assert str(tmp_path / "boxes") in (run_copy / "run.toml").read_text()
    for name in ("trainval", "test"):
        full = open_dataset("voc", digits, classes=("six", "three")).ground_truth(name)
        truth = {label: {image: full[label][image] for image in chosen[name]} for label in full}
        found = {
            label: kept(of, chosen[name]) for label, of in read_results(run_copy / "detections" / name, name).items()
        }
        rows = (evaluate_voc(found, truth) if name == "test" else corloc(found, truth)).rows()
        for label, row in rows.items():
            assert {key: after[name]["classes"][label][key] for key in row} == row
            assert after[name]["classes"][label]["image_ap"] == before[name]["classes"][label]["image_ap"]
    assert command("report", "--out", run_copy).status == 0
    assert "boxes are known of 5 of 20 pictures" in (run_copy / "page" / "index.html").read_text()
    assert command("evaluate", "--out", run_copy, "--boxes", "", "--quiet").status == 0
    assert json.loads((run_copy / "evaluation.json").read_text())["sets"] == before


def kept(detections, ids):
    """Return the detections in some pictures."""
    rows = np.array([image in ids for image in detections.image_ids])
    images = tuple(image for image in detections.image_ids if image in ids)
    return type(detections)(images, detections.scores[rows], detections.boxes[rows])


def test_a_set_without_a_picture_that_has_boxes_counts_as_without_boxes(digits, run_copy, tmp_path, command):
    some_annotations(digits, tmp_path / "boxes", "test", 3)
    result = command("evaluate", "--out", run_copy, "--boxes", tmp_path / "boxes")
    assert "set trainval: no boxes are known: detection AP and CorLoc are left out" in result.err


def test_evaluation_refers_to_the_rows_of_all_detections(digits, run_copy, tmp_path):
    from lapsvm.pipelines.context import open_stored
    from lapsvm.pipelines.run.folder import RunFolder
    from lapsvm.pipelines.run.progress import Reporter

    chosen = some_annotations(digits, tmp_path / "boxes", "test", 4)
    run = RunFolder(run_copy)
    settings = run.settings().with_values({"data.boxes": str(tmp_path / "boxes")})
    stored = open_stored(run, settings, Reporter(quiet=True))
    evaluation = evaluate_set(stored, BoxSource.of(stored), "test")
    for name, result in evaluation.voc.classes.items():
        ids = [evaluation.detections[name].image_ids[row] for row in result.order]
        assert set(ids) <= set(chosen)
        assert len(ids) == len(evaluation.located[name]) == len(result.tp)
        assert np.all(np.diff(evaluation.detections[name].scores[result.order]) <= 0)


def test_boxes_are_given_to_a_data_set_that_has_none(digits, tmp_path, command, fast):
    source = open_dataset("voc", digits)
    for set_name in ("trainval", "test"):
        for record in source.records(set_name):
            label = "six" if record.labels["six"] == 1 else "three" if record.labels["three"] == 1 else "none"
            (tmp_path / "data" / set_name / label).mkdir(parents=True, exist_ok=True)
            shutil.copy(record.path, tmp_path / "data" / set_name / label)
    line = ["--data", "folder", "--root", tmp_path / "data", "--out", tmp_path / "RUN", *fast]
    result = command("run", *line, "--boxes", digits / "Annotations")
    assert result.status == 0, result.err
    figures = json.loads((tmp_path / "RUN" / "evaluation.json").read_text())["sets"]
    assert figures["test"]["with_boxes"] == 20
    assert figures["test"]["mean"]["ap_area"] is not None
    assert figures["trainval"]["mean"]["corloc"] is not None


def test_boxes_that_are_not_there_are_refused_before_anything_is_done(digits, tmp_path, refused, fast):
    line = ["run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *fast, "--boxes", tmp_path / "none"]
    assert "--boxes names a COCO file or a folder" in refused(*line)
    assert not (tmp_path / "RUN").exists()


def test_detections_in_pictures_of_no_record_are_refused(digits, run_copy, tmp_path, refused, stamp_anew):
    some_annotations(digits, tmp_path / "boxes", "test", 3)
    path = run_copy / "detections" / "test" / "comp3_det_test_six.txt"
    path.write_text("elsewhere 1 1 1 9 9\n" + path.read_text())
    stamp_anew(run_copy / "detections" / "test")
    for more in ([], ["--boxes", tmp_path / "boxes"]):
        told = refused("evaluate", "--out", run_copy, "--quiet", *more)
        assert "must be in pictures of the evaluated set, got 'elsewhere'" in told


def test_figures_of_coco_are_over_the_pictures_that_have_boxes(digits, run_copy, tmp_path, command):
    pytest.importorskip("faster_coco_eval")
    chosen = some_annotations(digits, tmp_path / "boxes", "test", 5)
    line = ["evaluate", "--out", run_copy, "--boxes", tmp_path / "boxes", "--metrics", "coco", "--quiet"]
    assert command(*line).status == 0
    found = json.loads((run_copy / "evaluation.json").read_text())["sets"]["test"]["classes"]
    full = open_dataset("voc", digits, classes=("six", "three")).ground_truth("test")
    truth = {label: {image: full[label][image] for image in chosen} for label in full}
    detected = read_results(run_copy / "detections" / "test", "test")
    rows = coco_rows(*as_coco({label: kept(of, chosen) for label, of in detected.items()}, truth))
    for label, row in rows.items():
        assert {key: found[label][key] for key in row} == row
    everything = coco_rows(*as_coco(detected, full))
    assert rows != everything
