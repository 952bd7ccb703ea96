"""Options, names and folders as people give them: each is obeyed, or refused in a sentence."""

import json
import tomllib

import pytest
from lapsvm.pipelines.cli.parsing import setting_values
from lapsvm.pipelines.run.folder import RunFolder
from PIL import Image

QUICK = ["--extractor", "hog", "--windows", "grid", "--max-windows", "20", "--C", "1"]


def fill(folder, classes=("disc", "cross", "background")):
    """Write four small pictures per class."""
    for shade, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(4):
            picture = Image.new("RGB", (40, 30), (20 + 60 * shade, 40 * number, 90))
            picture.paste((255, 255, 255 - 90 * shade), (5, 5, 12 + 8 * shade, 25))
            picture.save(folder / name / f"{name}{number}.png")
    return folder


def test_sets_of_other_names_are_found_in_folders(tmp_path, command):
    fill(tmp_path / "data" / "learn"), fill(tmp_path / "data" / "look")
    arguments = ["run", "--data", "folder", "--root", tmp_path / "data", "--out", tmp_path / "RUN", "--quiet", *QUICK]
    assert command(*arguments, "--train-set", "learn", "--test-set", "look").status == 0
    assert set(json.loads((tmp_path / "RUN" / "evaluation.json").read_text())["sets"]) == {"learn", "look"}


def test_the_one_set_of_a_table_is_called_as_asked(tmp_path, command):
    root = fill(tmp_path / "data")
    rows = [f"{path.relative_to(root)},{path.parent.name}" for path in sorted(root.glob("*/*.png"))]
    (root / "labels.csv").write_text("\n".join(["image,label", *rows]) + "\n")
    arguments = ["extract", "--data", "csv", "--root", root, "--out", tmp_path / "RUN", *QUICK[:6]]
    assert command(*arguments, "--train-set", "mine").status == 0
    assert (tmp_path / "RUN" / "shards" / "mine").is_dir()


def test_a_test_set_that_was_asked_for_must_be_there(digits, tmp_path, refused):
    said = refused("run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", "--test-set", "tset")
    assert "set 'tset' does not exist" in said
    assert not (tmp_path / "RUN").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--test-set", "trainval"], "must name two sets, got 'trainval' for both"),
        (["--train-set", "../../elsewhere"], "--train-set must be a name without '/'"),
        (["--test-set", ".."], "--test-set must be a name"),
        (["--train-set", ""], "--train-set must be a name"),
    ],
)
def test_sets_must_be_two_that_can_name_folders(digits, tmp_path, refused, more, words):
    assert words in refused("run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *more)


def test_the_run_folder_knows_a_network_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").write_bytes(b"")
    given = setting_values({"extractor": ["onnx:net.onnx?order=bgr", "hog"]})["features.extractors"]
    assert given == (f"onnx:{tmp_path / 'net.onnx'}?order=bgr", "hog")


def test_a_class_may_be_called_like_markup(tmp_path, command):
    root = fill(tmp_path / "data", ("[red]dish", ":cat:", "none"))
    result = command("run", "--data", "folder", "--root", root, "--out", tmp_path / "RUN", *QUICK)
    assert result.status == 0
    assert "[red]dish" in result.out
    assert ":cat:" in result.out


def test_shards_from_must_name_a_run(digits, tmp_path, refused):
    arguments = ["extract", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *QUICK[:6]]
    assert "has no shards" in refused(*arguments, "--shards-from", tmp_path / "nosuch")


def test_settings_of_detection_stay_in_the_run_folder(run_copy, command):
    before = RunFolder(run_copy).notes("command")
    assert command("detect", "--out", run_copy).status == 0
    assert RunFolder(run_copy).notes("command") == before
    assert command("detect", "--out", run_copy, "--nms", "0.5").status == 0
    assert tomllib.loads((run_copy / "run.toml").read_text())["detect"]["nms_threshold"] == 0.5


@pytest.mark.parametrize("value", ['["x"]', "[true]", '"1"'])
def test_settings_of_a_wrong_type_are_refused(run_copy, refused, value):
    path = run_copy / "run.toml"
    settings = tomllib.loads(path.read_text())
    path.write_text(f"[train]\nC = {value}\n[data]\nname = '{settings['data']['name']}'\n")
    assert "setting 'C' in" in refused("detect", "--out", run_copy)


def test_a_file_where_a_folder_is_expected_is_named(run_copy, digits, tmp_path, refused, fast):
    (tmp_path / "OUT").mkdir()
    (tmp_path / "OUT" / "models").write_text("a file")
    said = refused("run", "--data", "voc", "--root", digits, "--out", tmp_path / "OUT", *fast)
    assert "Errno" not in said
    assert str(tmp_path / "OUT" / "models") in said


def test_prediction_survives_any_file_name(finished, digits, tmp_path, command):
    picture = tmp_path / "\udcff.jpg"  # a name that is no text
    picture.write_bytes(next((digits / "JPEGImages").iterdir()).read_bytes())
    result = command("predict", "--model", finished / "models", picture)
    assert json.loads(result.out)[0]["image"] == str(picture)
    assert result.out.isascii()


def test_a_drawing_replaces_no_picture(finished, tmp_path, refused):
    picture = tmp_path / "mine.png"
    Image.new("RGB", (60, 50), "white").save(picture)
    before = picture.read_bytes()
    said = refused("predict", "--model", finished / "models", picture, "--draw", tmp_path)
    assert "would be replaced by a drawing" in said
    assert picture.read_bytes() == before


def test_draw_must_name_a_folder(finished, digits, tmp_path, refused):
    (tmp_path / "file").write_text("")
    picture = next((digits / "JPEGImages").iterdir())
    assert "must name a folder" in refused(
        "predict", "--model", finished / "models", picture, "--draw", tmp_path / "file"
    )


def test_a_refusal_fits_on_a_screen_whatever_a_file_holds(tmp_path, refused):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "labels.csv").write_text(f"image,{'x' * 100_000}\na.jpg,cat\n")
    said = refused("run", "--data", "csv", "--root", tmp_path / "data", "--out", tmp_path / "RUN", *QUICK)
    assert "the header must be image,label" in said
    assert len(said) < 2100
