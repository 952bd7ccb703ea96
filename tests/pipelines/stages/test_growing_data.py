"""Pictures that are added, deleted or relabelled after a run: only what is new is computed."""

import shutil

import numpy as np
import pytest
from lapsvm.pipelines.products import projection
from lapsvm.pipelines.shards import extraction
from PIL import Image

from lapsvm.features import open_shards

from ..calls import done

QUICK = ["--extractor", "hog", "--windows", "grid", "--max-windows", "8", "--pca", "12", "--C", "1", "--folds", "2"]


def draw(path, seed):
    """Write a picture of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (36, 48, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A finished run on twenty pictures; not to be changed."""
    folder = tmp_path_factory.mktemp("begun")
    for number in range(20):
        draw(folder / "data" / ("cat", "dog")[number % 2] / f"{number:02}.png", number)
    done("run", "--data", "folder", "--root", folder / "data", "--out", folder / "RUN", *QUICK)
    return folder


@pytest.fixture
def folder(begun, tmp_path):
    """The same in a folder that a test may change: data and RUN."""
    shutil.copytree(begun, tmp_path / "own")
    settings = tmp_path / "own" / "RUN" / "run.toml"
    settings.write_text(settings.read_text().replace(str(begun), str(tmp_path / "own")))
    return tmp_path / "own"


@pytest.fixture
def extracted(monkeypatch):
    """The ids of the pictures that an extractor sees."""
    seen, found = [], extraction.prepare_record

    def prepare(record, *rest):
        seen.append(record.id)
        return found(record, *rest)

    for module in (extraction, projection):
        monkeypatch.setattr(module, "prepare_record", prepare)
    return seen


def rerun(folder, command, out="RUN", *more):
    return command("run", "--data", "folder", "--root", folder / "data", "--out", folder / out, *QUICK, *more)


def files(run):
    """Return the bytes of the projection and of the shards."""
    return {path.name: path.read_bytes() for path in [run / "projection.safetensors", *run.glob("shards/*/*")]}


def features(run):
    """Return picture -> its features, as bytes."""
    return {
        image_id: shard.features[start:stop].tobytes()
        for shard in open_shards(run / "shards" / "trainval")
        for image_id, start, stop in zip(shard.image_ids, shard.offsets, shard.offsets[1:], strict=False)
    }


@pytest.mark.parametrize("out", ["RUN", "OTHER"])
def test_of_a_folder_with_more_pictures_only_the_new_ones_are_seen(folder, command, extracted, made, out):
    before = files(folder / "RUN")
    models = made(folder / "RUN", "models/*")
    for number in range(5):
        draw(folder / "data" / "cat" / f"0{number}_new.png", 100 + number)
    said = rerun(folder, command, out, *(["--shards-from", folder / "RUN"] if out == "OTHER" else []))
    assert said.status == 0
    assert "set trainval: 5 pictures are new; the features of the others are kept" in said.err
    assert sorted(extracted) == [f"cat/0{number}_new" for number in range(5)]
    after = files(folder / out)
    assert after.items() >= before.items()
    assert after.keys() - before.keys() == {"0000002.safetensors"}
    assert made(folder / out, "models/*") != models
    assert ("trained again: cat, dog" in said.err) == (out == "RUN")
    del extracted[:]
    again = rerun(folder, command, out)
    assert (again.status, extracted, files(folder / out)) == (0, [], after)
    assert "new" not in again.err


def test_deleted_and_moved_pictures_are_not_seen_again(folder, command, extracted, begun):
    (folder / "data" / "cat" / "00.png").unlink()
    shutil.move(folder / "data" / "cat" / "02.png", folder / "data" / "dog" / "02.png")  # it shows a dog
    said = rerun(folder, command)
    assert said.status == 0
    assert "set trainval: 1 picture is gone, 1 picture is renamed; the features of the others are kept" in said.err
    assert extracted == []
    before = features(begun / "RUN")
    before["dog/02"] = before.pop("cat/02")
    del before["cat/00"]
    assert features(folder / "RUN") == before
    for name in ("dog", "cat"):
        lines = (folder / "RUN" / "detections" / "trainval" / f"comp3_det_trainval_{name}.txt").read_text()
        assert {line.split()[0] for line in lines.splitlines()} == before.keys()
    assert command("verify", "--out", folder / "RUN", "--pictures").status == 0


def test_a_run_that_grew_is_evaluated_without_its_shards(folder, command):
    draw(folder / "data" / "cat" / "00_new.png", 100)
    assert rerun(folder, command).status == 0
    before = (folder / "RUN" / "evaluation.json").read_bytes()
    shutil.rmtree(folder / "RUN" / "shards")
    (folder / "RUN" / "evaluation.json").unlink()
    assert command("evaluate", "--out", folder / "RUN").status == 0
    assert (folder / "RUN" / "evaluation.json").read_bytes() == before


def test_stages_that_need_shards_of_new_or_without_deleted_pictures_say_so(folder, refused):
    (folder / "data" / "cat" / "00.png").rename(folder / "data" / "cat" / "30.png")
    assert "lacks 1 of 20, the first is 'cat/30'; run lapsvm extract first." in refused(
        "train", "--out", folder / "RUN"
    )
    (folder / "data" / "cat" / "30.png").unlink()
    assert "has 1 more, such as 'cat/00'; run lapsvm extract first." in refused("train", "--out", folder / "RUN")


def test_classes_whose_labels_have_changed_are_trained_again(tmp_path, command, extracted):
    labels = [(f"{number:02}.png", ["cat", "dog", "bird"][number % 3]) for number in range(12)]
    for number, (name, _) in enumerate(labels):
        draw(tmp_path / "data" / name, number)
    line = ["run", "--data", "csv", "--root", tmp_path / "data", "--out", tmp_path / "RUN", *QUICK]
    for changed in ({}, {"00.png": "dog"}):
        del extracted[:]
        rows = [f"{name},{changed.get(name, label)}" for name, label in labels]
        (tmp_path / "data" / "labels.csv").write_text("\n".join(["image,label", *rows]))
        said = command(*line)
        assert said.status == 0
    assert "train: pictures, labels or groups have changed; trained again: cat, dog\n" in said.err
    assert extracted == []


def test_another_data_set_is_refused_as_before(folder, refused):
    shutil.rmtree(folder / "data")
    for number in range(20):
        draw(folder / "data" / ("cup", "car")[number % 2] / f"{number:02}.png", number + 100)
    said = refused("run", "--data", "folder", "--root", folder / "data", "--out", folder / "RUN", *QUICK, "--quiet")
    assert "have no picture of this data set; use another --out, or --redo." in said
