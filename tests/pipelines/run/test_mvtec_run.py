"""A run on the layout of MVTec AD: what its first lines say, and that training sees no mask."""

import json
import shutil

OPTIONS = ["--extractor", "hog", "--windows", "grid", "--max-windows", "200", "--C", "10", "--folds", "3"]


def test_the_first_lines_say_the_split(command, product, tmp_path):
    said = command("extract", "--data", "mvtec", "--root", product, "--out", tmp_path / "RUN", *OPTIONS[:-4]).err
    lines = said.splitlines()
    assert "set trainval: 36 pictures; positive: bar 6, spot 6; of no class: 24 (folder good)" in lines
    assert "set test: 24 pictures; positive: bar 6, spot 6; of no class: 12 (folder good)" in lines
    split = next(line for line in lines if line.startswith("split: "))
    assert "half of the pictures of each folder of test join training" in split
    assert lines.index(split) < next(row for row, line in enumerate(lines) if line.startswith("before it starts"))


def test_boxes_of_masks_are_those_of_evaluation(inspected):
    sets = json.loads((inspected / "evaluation.json").read_text())["sets"]
    assert sets["test"]["with_boxes"] == sets["test"]["pictures"] == 24
    assert {name: row["npos"] for name, row in sets["test"]["classes"].items()} == {"bar": 6, "spot": 6}
    assert all(row["corloc"] is not None for row in sets["trainval"]["classes"].values())


def test_training_sees_no_mask(inspected, product, made, command, tmp_path):
    root = shutil.copytree(product, tmp_path / "product")
    shutil.rmtree(root / "ground_truth")
    result = command("run", "--data", "mvtec", "--root", root, "--out", tmp_path / "RUN", *OPTIONS)
    assert result.status == 0, result.err
    assert "no boxes are known" in result.err
    table = json.loads((tmp_path / "RUN" / "evaluation.json").read_text())["sets"]["trainval"]
    assert table["classes"]["bar"].keys() == {"image_ap", "image_auroc"}
    patterns = "shards/*/*.safetensors", "models/*.safetensors", "heldout/*.safetensors", "detections/*/*.txt"
    assert made(tmp_path / "RUN", *patterns) == made(inspected, *patterns)


def test_a_broken_mask_is_named_before_the_first_stage(refused, product, tmp_path):
    root = shutil.copytree(product, tmp_path / "product")
    (root / "ground_truth/spot/003_mask.png").write_bytes(b"broken")
    line = refused("run", "--data", "mvtec", "--root", root, "--out", tmp_path / "RUN", *OPTIONS)
    assert "003_mask.png does not open" in line
    assert not (tmp_path / "RUN/shards").exists()


def test_the_layout_read_as_folders_of_classes_is_named(product, refused, tmp_path):
    root = shutil.copytree(product, tmp_path / "product")
    options = ["run", "--data", "folder", "--root", root, "--train-set", "train", "--out", tmp_path / "R"]
    assert f"data folder {root} has the layout of MVTec AD: read it by --data mvtec." in refused(*options)
    shutil.rmtree(root / "ground_truth")
    line = refused(*options)
    assert "bar has no positive picture in the training set" in line
    assert line.endswith("; --data mvtec takes half of the test pictures for training.\n")


def test_a_test_set_that_shows_the_defect_everywhere_has_no_order_to_judge(product, command, tmp_path):
    root, run = shutil.copytree(product, tmp_path / "product"), tmp_path / "RUN"
    for name in ("good", "spot"):
        shutil.rmtree(root / "test" / name)
    result = command("run", "--data", "mvtec", "--root", root, "--out", run, *OPTIONS)
    assert result.status == 0, result.err
    sets = json.loads((run / "evaluation.json").read_text())["sets"]
    assert sets["test"]["classes"]["bar"]["image_ap"] is sets["test"]["mean"]["image_ap"] is None
    assert sets["test"]["intervals"]["mean"]["image_ap"] is None
    assert sets["trainval"]["held_out"]["mean"]["image_ap"] > 0
    page = " ".join((run / "page/index.html").read_text().split())
    pictures = page[page.index(">Whole pictures</h3>") : page.index(">Class by class</h2>")]
    assert "by models that did not see the picture" in pictures
    assert "on test" not in pictures
