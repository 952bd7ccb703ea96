"""Windows and features from elsewhere: every format gives the run that extraction gave."""

import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy.io import savemat

from lapsvm.detection import Detector
from lapsvm.features import open_shards

from ..calls import done

SETS = ("trainval", "test")


def pictures_of(run, set_name):
    """Yield id, boxes (float64) and features (float32) of a run's set."""
    for shard in open_shards(run / "shards" / set_name):
        for place, image_id in enumerate(shard.image_ids):
            rows = slice(shard.offsets[place], shard.offsets[place + 1])
            yield image_id, shard.boxes[rows].astype(np.float64), shard.features[rows].astype(np.float32)


def every_picture(run):
    return [picture for set_name in SETS for picture in pictures_of(run, set_name)]


def cells(arrays):
    """Return a MATLAB cell array."""
    found = np.empty((1, len(arrays)), dtype=object)
    for place, array in enumerate(arrays):
        found[0, place] = array
    return found


def as_matlab(boxes):
    """Return boxes as x1, y1, x2, y2, 1-based, the last pixels inside."""
    return boxes + np.array([1, 1, 0, 0])


def write_npz(run, folder):
    for image_id, boxes, features in every_picture(run):
        np.savez(folder / f"{image_id}.npz", boxes=boxes, features=features)
    return [folder]


def write_npy(run, folder):
    """Write small types."""
    ids, boxes, features = zip(*every_picture(run), strict=True)
    np.save(folder / "fc7.npy", np.concatenate(features).astype(np.float16))
    np.save(folder / "boxes.npy", np.concatenate(boxes).astype(np.int32))
    np.save(folder / "offsets.npy", np.cumsum([0, *map(len, boxes)]).astype(np.int32))
    (folder / "ids.txt").write_text("\n".join(ids))
    return [folder / "fc7.npy"]


def write_json(run, folder):
    table = {name: {"boxes": boxes.tolist(), "features": f.tolist()} for name, boxes, f in every_picture(run)}
    (folder / "cache.json").write_text(json.dumps(table))
    return [folder / "cache.json"]


def write_rcnn(run, folder):
    """Write R-CNN's caches: a folder for each set, with an annotated object in the first row of each file."""
    for set_name in SETS:
        own = folder / f"voc_{set_name}"
        own.mkdir()
        for image_id, boxes, features in pictures_of(run, set_name):
            fields = {
                "gt": np.append(True, np.zeros(len(boxes), dtype=bool))[:, None],
                "overlap": np.ones((len(boxes) + 1, 4)),
                "boxes": as_matlab(np.vstack([[3, 4, 17, 19], boxes])).astype(np.float32),
                "feat": np.vstack([np.full(features.shape[1], 7), features]).astype(np.float32),
                "class": np.ones((len(boxes) + 1, 1), dtype=np.uint8),
            }
            savemat(own / f"{image_id}.mat", fields, do_compression=True)
    return [folder / f"voc_{set_name}" for set_name in SETS]


def write_list_with_features(run, folder):
    """Write one .mat with cells, y1 x1 y2 x2, as WSDDN's users have, and their features beside."""
    ids, boxes, features = zip(*every_picture(run), strict=True)
    content = {
        "images": cells(ids).T,
        "boxes": cells([as_matlab(own)[:, [1, 0, 3, 2]] for own in boxes]),
        "boxScores": cells([np.ones((len(own), 1)) for own in boxes]),
        "feat": cells(features),
    }
    savemat(folder / "all.mat", content)
    return [folder / "all.mat"]


WITH_FEATURES = [write_npz, write_npy, write_json, write_rcnn, write_list_with_features]


def write_selective_search(run, folder):
    """Write one list for each set."""
    for set_name in SETS:
        ids, boxes, _ = zip(*pictures_of(run, set_name), strict=True)
        boxes = cells([as_matlab(own)[:, [1, 0, 3, 2]].astype(np.uint16) for own in boxes])
        savemat(folder / f"voc_{set_name}.mat", {"images": cells(ids).T, "boxes": boxes})
    return [folder / f"voc_{set_name}.mat" for set_name in SETS]


def write_coco(run, folder):
    """Write a list with falling scores, in another order, under the numbers of the ids."""
    rows = [
        {"image_id": int(image_id), "bbox": [*box[:2], *(box[2:] - box[:2])], "score": -place}
        for image_id, boxes, _ in every_picture(run)
        for place, box in enumerate(boxes)
    ]
    (folder / "proposals.json").write_text(json.dumps(rows[::-1]))
    return [folder / "proposals.json"]


def write_edge_boxes(run, folder):
    for image_id, boxes, _ in every_picture(run):
        bbs = np.hstack([boxes[:, :2] + 1, boxes[:, 2:] - boxes[:, :2], np.ones((len(boxes), 1))])
        savemat(folder / f"{image_id}.mat", {"bbs": bbs})
    return [folder]


def write_mcg(run, folder):
    for image_id, boxes, _ in every_picture(run):
        bboxes = as_matlab(boxes)[:, [1, 0, 3, 2]]
        savemat(folder / f"{image_id}.mat", {"bboxes": bboxes, "bboxes_scores": np.ones((len(boxes), 1))})
    return [folder]


def write_plain_json(run, folder):
    (folder / "boxes.json").write_text(json.dumps({name: boxes.tolist() for name, boxes, _ in every_picture(run)}))
    return [folder / "boxes.json"]


BOXES_ALONE = [write_selective_search, write_coco, write_edge_boxes, write_mcg, write_plain_json]


@pytest.fixture
def data(digits):
    return ["--data", "voc", "--root", digits, "--classes", "six,three"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


def assert_same_shards(first, second):
    for set_name in SETS:
        for (name, boxes, features), (other, others, numbers) in zip(
            pictures_of(first, set_name), pictures_of(second, set_name), strict=True
        ):
            assert name == other
            np.testing.assert_array_equal(boxes, others)
            np.testing.assert_array_equal(features, numbers)


@pytest.mark.parametrize("write", WITH_FEATURES, ids=lambda write: write.__name__)
def test_every_format_gives_the_shards_of_extraction(write, finished, data, folder, tmp_path, command):
    out = tmp_path / "RUN"
    result = command("import", *write(finished, folder), *data, "--out", out)
    assert result.status == 0, result.err
    assert_same_shards(out, finished)


@pytest.fixture(scope="module")
def imported(finished, digits, fast_training, tmp_path_factory):
    """A folder of .npz files, and a run that was trained on them; not to be changed."""
    folder = tmp_path_factory.mktemp("imported")
    data = ["--data", "voc", "--root", digits, "--classes", "six,three"]
    done("import", *write_npz(finished, folder), *data, "--out", folder / "RUN")
    done("train", "--out", folder / "RUN", *fast_training)
    return folder / "RUN"


@pytest.fixture
def imported_copy(imported, tmp_path):
    """The same that a test may change."""
    return shutil.copytree(imported, tmp_path / "RUN")


def test_imported_features_train_to_the_model_of_extracted_ones(imported_copy, finished, command, made):
    for stage in ("detect", "evaluate", "report"):
        assert command(stage, "--out", imported_copy).status == 0
    for name in ("six", "three"):
        own, other = (Detector.load(run / "models" / f"{name}.safetensors") for run in (imported_copy, finished))
        np.testing.assert_array_equal(own.coef, other.coef)
        assert own.intercept == other.intercept
    assert made(imported_copy, "detections/*/*.txt") == made(finished, "detections/*/*.txt")
    assert command("verify", "--out", imported_copy).status == 0


@pytest.mark.parametrize("write", BOXES_ALONE, ids=lambda write: write.__name__)
def test_boxes_alone_are_windows_to_extract(write, finished, data, folder, tmp_path, command, refused):
    sources, out = write(finished, folder), tmp_path / "RUN"
    assert "lapsvm extract --proposals" in refused("import", *sources, *data, "--out", out)
    proposals = [part for source in sources for part in ("--proposals", source)]
    result = command("extract", *proposals, *data, "--out", out, "--extractor", "hog")
    assert result.status == 0, result.err
    assert_same_shards(out, finished)


def test_models_of_windows_from_files_predict_by_a_method_that_is_named(
    finished, data, folder, tmp_path, command, refused, fast_training
):
    out = tmp_path / "RUN"
    (source,) = write_edge_boxes(finished, folder)
    assert command("extract", "--proposals", source, *data, "--out", out, "--extractor", "hog").status == 0
    assert command("train", "--out", out, *fast_training).status == 0
    picture = next((data[3] / "JPEGImages").iterdir())
    assert "--windows" in refused("predict", "--model", out / "models", picture)
    predicted = command("predict", "--model", out / "models", picture, "--windows", "grid")
    assert predicted.status == 0, predicted.err
    assert json.loads(predicted.out)


def test_rows_flagged_as_ground_truth_are_counted_on_the_way_and_on_the_page(
    finished, data, folder, tmp_path, command, fast_training
):
    out, pictures = tmp_path / "RUN", len(list(pictures_of(finished, "trainval")))
    for image_id, boxes, features in every_picture(finished):
        np.savez(folder / image_id, boxes=boxes, features=features, gt=np.arange(len(boxes)) == 3)
    result = command("import", folder, *data, "--out", out)
    assert f"{pictures} rows of ground truth left out by their flag" in result.err
    command("train", "--out", out, *fast_training)
    for stage in ("detect", "evaluate", "report"):
        command(stage, "--out", out)
    assert "rows of ground truth left out" in (out / "page" / "index.html").read_text()


def annotated(data, set_name):
    from lapsvm.catalog import open_dataset

    truth = open_dataset("voc", data[3]).ground_truth(set_name)
    found = {}
    for pictures in truth.values():
        for image_id, objects in pictures.items():
            found.setdefault(image_id, []).extend(objects.boxes.tolist())
    return found


def test_ground_truth_without_a_flag_is_told_and_left_out_on_request(finished, data, folder, tmp_path, command):
    boxes_of = {**annotated(data, "trainval"), **annotated(data, "test")}
    for image_id, boxes, features in every_picture(finished):
        hidden = np.array(boxes_of[image_id]).reshape(-1, 4)
        rows = np.vstack([hidden, boxes])
        np.savez(folder / image_id, boxes=rows, features=np.vstack([features[: len(hidden)], features]))
    every_class = data[:4]
    told = command("import", folder, *every_class, "--out", tmp_path / "WITH").err
    assert "the windows seem to hold the ground truth; --drop-equal-boxes leaves it out" in told
    told = command("import", folder, *every_class, "--out", tmp_path / "WITHOUT", "--drop-equal-boxes").err
    assert "boxes of annotated objects left out" in told
    assert "windows exactly" not in told
    assert_same_shards(tmp_path / "WITHOUT", finished)


def test_a_repeated_import_changes_nothing_and_changed_content_is_refused(
    finished, data, folder, tmp_path, command, refused, made
):
    out = tmp_path / "RUN"
    line = ["import", *write_npz(finished, folder), *data, "--out", out]
    assert command(*line).status == 0
    first = made(out)
    shard = sorted(out.glob("shards/test/*"))[0]
    shard.write_bytes(shard.read_bytes()[:-7])
    assert command("import", "--out", out).status == 0
    assert made(out) == first
    image_id, boxes, features = every_picture(finished)[3]
    np.savez(folder / f"{image_id}.npz", boxes=boxes, features=features + 1)
    assert "was made from other content" in refused(*line)
    assert made(out) == first
    assert command(*line, "--redo").status == 0
    assert made(out) != first


def test_models_know_that_their_features_were_imported_anew(
    imported_copy, finished, data, folder, command, refused, fast_training
):
    line = ["import", *write_npz(finished, folder), *data, "--out", imported_copy]
    image_id, boxes, features = every_picture(finished)[3]
    np.savez(folder / f"{image_id}.npz", boxes=boxes, features=features + 1)
    command(*line, "--redo")
    assert "data.content" in refused("train", "--out", imported_copy, *fast_training)


def test_what_does_not_go_with_imported_features_is_refused(imported, data, refused):
    line = ["import", imported.parent, *data, "--out", imported]
    assert "windows.clip False instead of True" in refused(*line, "--clip")
    assert "imported features" in refused("extract", "--out", imported)
    picture = next((data[3] / "JPEGImages").iterdir())
    assert "was trained on imported features" in refused("predict", "--model", imported / "models", picture)


def test_without_the_whole_picture_training_may_not_begin_there(
    finished, data, folder, tmp_path, command, refused, fast_training
):
    for image_id, boxes, features in every_picture(finished):
        np.savez(folder / image_id, boxes=boxes[1:], features=features[1:])
    out = tmp_path / "RUN"
    said = command("import", folder, *data, "--out", out).err
    assert "40 pictures without a window of the whole picture" in said
    sentence = refused("train", "--out", out, *fast_training, "--init", "whole_image")
    assert "needs a window of the whole picture" in sentence
    assert command("train", "--out", out, *fast_training).status == 0


def test_the_whole_picture_comes_first_wherever_it_stands(finished, data, folder, tmp_path, command):
    for image_id, boxes, features in every_picture(finished):
        np.savez(folder / image_id, rois=np.roll(boxes, -1, axis=0), feats=np.roll(features, -1, axis=0))
    assert command("import", folder, *data, "--out", tmp_path / "RUN").status == 0
    assert_same_shards(tmp_path / "RUN", finished)


def test_a_set_without_features_can_be_done_without(finished, data, folder, tmp_path, command, refused, fast_training):
    for image_id, boxes, features in pictures_of(finished, "trainval"):
        np.savez(folder / image_id, boxes=boxes, features=features)
    line = ["import", folder, *data, "--out", tmp_path / "RUN"]
    assert "--test-set none" in refused(*line)
    assert command(*line, "--test-set", "none").status == 0
    for stage, options in (("train", fast_training), ("detect", []), ("evaluate", []), ("report", [])):
        result = command(stage, "--out", tmp_path / "RUN", *options)
        assert result.status == 0, result.err


def test_names_and_conventions_are_options(finished, data, folder, tmp_path, command):
    for image_id, boxes, features in every_picture(finished):
        np.savez(folder / image_id, where=as_matlab(boxes)[:, [1, 0, 3, 2]], what=features)
    options = ["--boxes-name", "where", "--features-name", "what", "--box-order", "yxyx"]
    options += ["--base", 1, "--edges", "inclusive"]
    result = command("import", folder, *data, "--out", tmp_path / "RUN", *options)
    assert result.status == 0, result.err
    assert_same_shards(tmp_path / "RUN", finished)


def test_an_interrupted_import_continues_to_the_same_bytes(finished, data, folder, tmp_path, command, made):
    sources = write_npz(finished, folder)
    whole = tmp_path / "WHOLE"
    command("import", *sources, *data, "--out", whole)
    last = sorted(folder.iterdir())[-1]
    content = last.read_bytes()
    last.write_bytes(content[: len(content) // 2])
    out = tmp_path / "RUN"
    stopped = command("import", *sources, *data, "--out", out)
    assert stopped.status == 2
    assert f"{last} is truncated" in stopped.err
    assert made(out, "shards/*/*")
    last.write_bytes(content)
    assert command("import", *sources, *data, "--out", out).status == 0
    assert made(out, "shards/*/*") == made(whole, "shards/*/*")


@pytest.mark.slow
def test_a_killed_import_continues_to_the_same_bytes(finished, data, folder, tmp_path, command, made):
    sources, out = write_rcnn(finished, folder), tmp_path / "RUN"
    line = [sys.executable, "-m", "lapsvm.pipelines", *map(str, ["import", *sources, *data, "--out", out, "--jobs", 1])]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
    while process.poll() is None and not list(out.glob("shards/trainval/*.safetensors")):
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert command(*line[3:]).status == 0
    command("import", *sources, *data, "--out", tmp_path / "WHOLE")
    assert made(out, "shards/*/*") == made(tmp_path / "WHOLE", "shards/*/*")
    assert not list(out.rglob("*.partial"))
