"""Settings, options and names that no machine can take: one line, at once."""

import io
import os
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from lapsvm.datasets.digits import open_digits
from lapsvm.datasets.labelled import labelled_records
from lapsvm.pipelines.compare.output import comparison_markdown
from lapsvm.pipelines.run.dataset import count_labels
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.settings.checks import check_settings
from lapsvm.pipelines.settings.limits import MAX_JOBS, MAX_SEED
from lapsvm.pipelines.settings.settings import Settings
from PIL import Image

from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.errors import InputError, LapsvmError, ModelFileError, SettingsError
from lapsvm.evaluation import draw_pictures
from lapsvm.names.escapes import printable
from lapsvm.report import escape_markdown

DEEP = sys.getrecursionlimit()


@pytest.mark.parametrize(
    "text",
    [
        f"seed = {2**32}",
        "seed = -1",
        "seed = " + "9" * 20,
        "seed = " + "9" * 5000,
        "seed = 0x" + "f" * 5000,
        "train.tol = 1" + "0" * 400,
        "train.C = [1" + "0" * 400 + "]",
        "train.C = []",
        "train.J = []",
        "train.trim = []",
        "features.extractors = []",
        "train.folds = 0",
        "train.folds = 1",
        "train.candidates = " + "9" * 25,
        "windows.max_windows = 0",
        "windows.max_windows = " + "9" * 25,
        "detect.max_detections = 0",
        "detect.max_detections = -" + "9" * 25,
        "features.sizes = [8193]",
        "windows.source.base = -2",
        "train.tol = nan",
        "train.J = [nan]",
        "train.C = [[1.0]]",
        "train.C = " + "[" * 100 + "]" * 100,
        "train.loss = " + "[" * 100 + "]" * 100,
        "train.C = " + "[" * DEEP + "]" * DEEP,
        "data = " + "{a=" * DEEP + "1" + "}" * DEEP,
        ".".join("a" * DEEP) + " = 1",
        "train = 5",
        "data.root.more = 5",
        "seed = 1979-05-27",
        "= 1",
    ],
)
def test_a_recipe_that_cannot_be_is_a_sentence(tmp_path, text):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(LapsvmError) as caught:
        check_settings(Settings.read(path))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("content", [b"seed = \xff", b"\xff\xfe", b"\0", b"s\0e\0"])
def test_a_recipe_that_is_no_text_is_a_sentence(tmp_path, content):
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=r"a\.toml (must be text in UTF-8, got|is not valid TOML)"):
        Settings.read(tmp_path / "a.toml")


def test_the_largest_values_are_taken():
    values = {"seed": MAX_SEED, "windows.max_windows": 2**31 - 1, "features.sizes": (8192,), "train.folds": 2}
    assert check_settings(Settings().with_values(values)).seed == MAX_SEED


def test_settings_of_generated_digits_that_are_too_deep_are_a_sentence(tmp_path):
    (tmp_path / "digits.toml").write_text("seed = " + "[" * DEEP + "]" * DEEP)
    with pytest.raises(SettingsError, match=r"digits\.toml is not valid TOML"):
        open_digits(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seed", str(MAX_SEED + 1)], "--seed"),
        (["--seed", "9" * 5000], "--seed"),
        (["--jobs", str(MAX_JOBS + 1)], "--jobs"),
        (["--max-windows", "9" * 25], "--max-windows must be from"),
        (["--sizes", "inf"], "--sizes must be whole numbers"),
        (["--sizes", "nan"], "--sizes must be whole numbers"),
        (["--sizes", "640.5"], "--sizes must be whole numbers"),
        (["--sizes", "1e30"], "--sizes must be from"),
        (["--folds", "0"], "--folds"),
        (["--C", ","], "--C must name at least one value"),
        (["--root", os.fsdecode(b"caf\xe9")], "--root must be text that UTF-8 can write, got"),
    ],
)
def test_options_out_of_all_bounds_are_refused(digits, tmp_path, refused, options, words):
    said = refused("run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *options)
    assert words in said
    assert not (tmp_path / "RUN").exists()


@pytest.mark.parametrize("options", [["--draws", "100000000000"], ["--seeds", "9" * 12], ["--folds", "9" * 12]])
def test_a_comparison_that_never_ends_is_refused(tmp_path, refused, options):
    assert options[0] in refused("compare", "--out", tmp_path / "COMPARISON", tmp_path, tmp_path, *options)


def test_draws_are_bounded_by_what_they_take():
    with pytest.raises(InputError, match="draws of 5,000 pictures must be at most 53,687, got 100,000,000,000"):
        draw_pictures(5000, 10**11, 0)
    assert draw_pictures(3, 5, 0).shape == (5, 3)


def test_a_run_in_a_folder_whose_name_is_no_text(digits, tmp_path, command, fast_extraction):
    out = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    arguments = ["extract", "--data", "voc", "--root", digits, "--quiet", *fast_extraction]
    assert command(*arguments, "--out", out).status == 0
    assert RunFolder(out).settings().data.root == str(digits)
    assert command("verify", "--out", out).status == 0


def test_what_steers_a_terminal_is_written_as_an_escape():
    assert printable("one\n two\x1b[31m \udce9 é 中") == "one\n two\\x1b[31m \\udce9 é 中"


def test_a_model_that_does_not_say_how_it_was_made_is_refused(finished, tmp_path, refused, digits):
    detector = Detector("six", np.ones(5))
    detector.save(tmp_path / "six.safetensors")
    picture = next((digits / "JPEGImages").iterdir())
    assert "'six' must have the provenance of a run" in refused(
        "predict", picture, "--model", tmp_path / "six.safetensors"
    )
    assert provenance_value(Detector("a", [1.0], provenance={"x": {"y": 3}}), "x", "y") == 3
    for provenance in ({}, {"x": 3}, {"x": {}}):
        with pytest.raises(ModelFileError, match=r"x\.y is missing"):
            provenance_value(Detector("a", [1.0], provenance=provenance), "x", "y")


def test_a_run_with_such_a_model_is_not_reported_with_an_exception(finished, tmp_path, refused):

    out = tmp_path / "RUN"
    shutil.copytree(finished, out)
    for name in ("six", "three"):
        old = Detector.load(out / "models" / f"{name}.safetensors")
        Detector(name, old.coef, old.intercept, old.scale).save(out / "models" / f"{name}.safetensors")
    assert "report needs models by the run's settings" in refused("report", "--out", out)


HOSTILE = "<img src=x onerror=alert(1)>|[a](http://b)`c`*d*\\&lt;"


def test_names_in_markdown_stand_for_themselves():
    row = {"values": [0.5, 0.25], "differences": [None]}
    entry = {"classes": {HOSTILE: row}, "mean": row}
    runs = [{"name": HOSTILE, "learner": "a"}, {"name": "two\n# three", "learner": "b"}]
    table = {"runs": runs, "measures": {"image_ap": entry}, "level": 0.95, "draws": 10, "seed": 0}
    text = comparison_markdown(table)
    assert "<" not in text.replace("< 0.001", "")
    assert "\n# three" not in text
    assert escape_markdown(HOSTILE) in text
    assert escape_markdown(HOSTILE) == ("&lt;img src=x onerror=alert(1)>\\|\\[a](http://b)\\`c\\`\\*d\\*\\\\&amp;lt;")


def test_many_labels_take_room_and_time_for_what_pictures_show():
    """As many classes as pictures: no table of both is ever made."""
    count = 20_000
    classes = [f"c{i}" for i in range(count)]
    records = labelled_records(((f"{i}.jpg", Path(f"{i}.jpg"), {f"c{i}"}) for i in range(count)), classes)
    assert all(len(record.labels.positive) == 1 for record in records)
    assert len({id(record.labels.classes) for record in records}) == 1
    positive, negative = count_labels(records)
    assert set(positive.values()) == {1}
    assert set(negative.values()) == {count - 1}
    assert dict(labelled_records([("a.jpg", Path("a.jpg"), {"x"})], ["x", "y"])[0].labels) == {"x": 1, "y": -1}


def test_labels_of_both_kinds_are_counted_alike():
    shown = labelled_records([("a.jpg", Path("a.jpg"), {"x"}), ("b.jpg", Path("b.jpg"), set())], ["x", "y"])
    plain = [ImageRecord(one.id, None, dict(one.labels)) for one in shown]
    more = [ImageRecord("c", None, {"x": 0, "z": 1})]
    for records in (shown + more, plain + more, shown[:1] + plain[1:] + more):
        positive, negative = count_labels(records)
        assert [positive[name] for name in "xyz"] == [1, 0, 1]
        assert [negative[name] for name in "xyz"] == [1, 2, 0]
    assert shown[0].labels == plain[0].labels
    assert shown[0].labels.get("z", 0) == 0
    with pytest.raises(KeyError):
        shown[0].labels["z"]


SHUTDOWN = """
import os, signal, sys
from lapsvm.pipelines.commands import entry
from lapsvm.pipelines.commands import verbs as cli

class Late:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})

keep = Late()
cli.main = lambda: (print("done"), sys.exit({status}))
entry.main()
"""


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 0), ("SIGTERM", 2)])
def test_a_signal_while_the_interpreter_ends_changes_nothing(name, status):
    code = SHUTDOWN.format(name=name, status=status)
    done = subprocess.run([sys.executable, "-P", "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (status, "done\n", "")


def test_what_waits_for_the_end_has_its_turn():
    code = SHUTDOWN.format(name="SIGINT", status=0).replace("cli.main =", "import atexit\ncli.main =")
    code = code.replace('print("done")', 'atexit.register(print, "late")')
    done = subprocess.run([sys.executable, "-P", "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "late\n")


def test_pictures_that_are_too_large_or_damaged_are_left_out_on_request(tmp_path, command, refused):
    for name in ("cat", "dog"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (40, 30), (90, 60 * number, 20)).save(tmp_path / "data" / name / f"{number}.png")
    dds = io.BytesIO()
    Image.new("RGB", (8, 8)).save(dds, "DDS")
    content = bytearray(dds.getvalue())
    content[80:92] = b"\x04\x00\x00\x00DXT9\x00\x00\x00\x00"  # a pixel format that there is not
    large = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">IIBBBBB", 10_000, 10_000, 1, 0, 0, 0, 0)
    bad = {"cat/damaged.png": bytes(content), "dog/large.png": large + struct.pack(">I", zlib.crc32(large[12:]))}
    line = ["extract", "--data", "folder", "--root", tmp_path / "data", "--windows", "grid", "--max-windows", "5"]
    for name, content in bad.items():
        (tmp_path / "data" / name).write_bytes(content)
        assert f"{name} " in refused(*line, "--quiet", "--out", tmp_path / "RUN")
        if name == "cat/damaged.png":
            (tmp_path / "data" / name).unlink()
    (tmp_path / "data" / "cat/damaged.png").write_bytes(bad["cat/damaged.png"])
    (tmp_path / "data" / "dog" / "gone.png").symlink_to("nowhere.png")
    done = command(*line, "--skip-bad", "--out", tmp_path / "OTHER")
    assert done.status == 0
    for name in ("cat/damaged", "dog/large", "dog/gone"):
        assert f"picture {name} is left out" in done.err
    assert "Warning" not in done.err
