"""`lapsvm export --format onnx`: the detectors of a run as one file."""

import io
import json
import shutil
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from lapsvm.pipelines.commands.exporting import onnx_detector, onnx_precision
from lapsvm.pipelines.commands.exporting.onnx_comparison import Compared, summary
from lapsvm.pipelines.commands.exporting.onnx_precision import precision_figures, precision_lines
from lapsvm.pipelines.commands.exporting.shown_pictures import telling
from PIL import Image

from lapsvm.catalog import GroundTruth, ImageRecord, open_dataset, read_image
from lapsvm.detection import Predictor
from lapsvm.detection.onnx_file import OnnxDetector
from lapsvm.errors import DataError, ImageError

from ...twins.networks import onnx_network
from ..calls import done

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


BOX = np.array([[0.0, 0, 10, 10]])
KNOWN = SimpleNamespace(pictures={"one"}, truth={"cat": {"one": GroundTruth(BOX, np.zeros(1, bool))}})


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A network with a map of colours in cells of 16 pixels."""
    kernel = np.random.default_rng(0).normal(size=(8, 3, 16, 16)).astype(np.float32) / 50
    nodes = [("Conv", "picture kernel", "sums", {"strides": [16, 16]}), ("Relu", "sums", "map", {})]
    taken, made = {"picture": [1, 3, "h", "w"]}, {"map": [1, 8, "r", "c"]}
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    path.write_bytes(onnx_network(nodes, taken, made, {"kernel": kernel}))
    return path


@pytest.fixture(scope="module")
def of_network(network, digits, fast_network, tmp_path_factory):
    """A run on the network's features with all that recipe best does to scores."""
    run = tmp_path_factory.mktemp("onnx run") / "run"
    chosen = {"features.store_context": "true", "features.contrast": ".5", "train.candidates": "5"}
    chosen |= {"detect.demotion": "1", "detect.score_smoothing": ".5", "detect.box_voting": ".7"}
    more = ["--C", "1", "--pca", "6", "--quiet"]
    more += [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
    words = ["--data", "voc", "--root", digits, "--extractor", f"onnx:{network}?size=96", *fast_network, *more]
    done("run", "--out", run, *words)
    return run


@pytest.fixture(scope="module")
def exported(of_network, tmp_path_factory):
    """The file of each precision, compared with the run, and what the command said; made once."""

    @cache
    def export(precision):
        to, out, err = tmp_path_factory.mktemp(precision) / "detector.onnx", io.StringIO(), io.StringIO()
        line = ["export", "--out", of_network, "--format", "onnx", "--to", to, "--precision", precision, "--json"]
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for module, name in ((onnx_detector, "COMPARED"), (onnx_detector, "EQUAL"), (onnx_precision, "COMPARED")):
                patch.setattr(module, name, 2)
            done(*line)
        return SimpleNamespace(to=to, figures=json.loads(out.getvalue())["figures"], err=err.getvalue())

    return export


def test_the_file_is_compared_and_written(exported, digits):
    result = exported("float32")
    assert "scores of given windows: largest difference" in result.err
    assert "own windows: VOC AP" in result.err
    assert [path.name for path in result.to.parent.iterdir()] == ["detector.onnx"]
    detector = OnnxDetector(result.to.read_bytes())
    assert json.loads(detector.metadata["classes"]) == ["six", "three"]
    assert detector.metadata["network"] == "tiny.onnx"
    pixels = read_image(open_dataset("voc", digits).records("test")[0].path)
    assert all(len(scores) for _, scores in detector.detect(pixels))


def test_a_file_that_takes_all_inputs_scores_the_windows_of_the_run(command, of_network, digits, tmp_path, monkeypatch):
    for name, pictures in (("COMPARED", 2), ("EQUAL", 2)):
        monkeypatch.setattr(onnx_detector, name, pictures)
    to = tmp_path / "detector.onnx"
    assert command("export", "--out", of_network, "--format", "onnx", "--to", to, "--inputs", "all").status == 0
    pixels = read_image(open_dataset("voc", digits).records("test")[0].path)
    predictor = Predictor.open(of_network, threshold=0)
    windows = predictor.propose(pixels)
    found = OnnxDetector(to.read_bytes()).detect(pixels, windows=windows, max_boxes=np.array([10]))
    for (boxes, scores), expected in zip(found, predictor(pixels).values(), strict=True):
        np.testing.assert_allclose(scores, expected.scores, atol=1e-5)
        np.testing.assert_allclose(boxes, expected.boxes, atol=0.1)


def test_a_warning_of_the_extractor_and_what_the_file_lacks_are_said(command, of_network, tmp_path, monkeypatch):
    """The windows of method small, the rule for boxes around several things, and the extent of what stands out."""

    def of_small_things(*given, **options):
        warnings.warn("network slow takes long.", stacklevel=1)
        predictor = opened(*given, **options)
        result = {"result": {"things": 3.0, "extent": 0.9}}
        several = [replace(one, provenance={**one.provenance, **result}) for one in predictor.detectors]
        return replace(predictor, windows=replace(predictor.windows, method="small"), detectors=several)

    opened = Predictor.open
    monkeypatch.setattr(Predictor, "open", of_small_things)
    words = "export", "--out", of_network, "--format", "onnx", "--to", tmp_path / "detector.onnx", "--no-comparison"
    lacking = onnx_detector.LACKING, onnx_detector.GROUPED, onnx_detector.FITTED
    assert command(*words).err.splitlines()[:4] == ["network slow takes long.", *lacking]


@pytest.mark.parametrize("more", [["--inputs", "all"], ["--precision", "int8"], ["--no-comparison"]])
def test_options_of_the_format_onnx_are_refused_of_others(refused, of_network, tmp_path, more):
    said = refused("export", "--out", of_network, "--format", "coco", "--to", tmp_path / "a", *more)
    assert f"option {more[0]} is for the format onnx, got the format coco" in said


def test_a_file_in_int8_says_what_it_costs(exported):
    result = exported("int8")
    figures = result.figures["precision"]
    assert figures.keys() == {"milliseconds", "megabytes", "voc_ap"}
    assert figures["megabytes"]["int8"] == result.to.stat().st_size / 1e6
    assert "int8: the ranges between the network's layers are measured on 12 training pictures" in result.err
    assert "ms a picture beside" in result.err
    assert "int8: VOC AP" in result.err
    assert OnnxDetector(result.to.read_bytes()).metadata["precision"] == "int8"


def test_a_file_made_again_without_comparison_has_the_same_bytes(command, exported, of_network, tmp_path, monkeypatch):
    compared = exported("int8").to.read_bytes()
    monkeypatch.setattr(OnnxDetector, "detect", None)
    more = ["--precision", "int8", "--no-comparison", "--json"]
    result = command("export", "--out", of_network, "--format", "onnx", "--to", tmp_path / "a.onnx", *more)
    assert result.status == 0, result.err
    assert json.loads(result.out)["figures"] == {"classes": ["six", "three"], "compared": []}
    assert "the file is not compared with the run (--no-comparison)" in result.err
    assert (tmp_path / "a.onnx").read_bytes() == compared


ODD = {
    "1x1.png": np.full((1, 1, 3), 90, np.uint8),
    "black.png": np.zeros((40, 60), np.uint8),
    "grey.png": np.arange(256, dtype=np.uint8).reshape(16, 16),
    "deep.png": np.random.default_rng(1).integers(0, 65536, (40, 50), dtype=np.uint16),
    "alpha.png": np.random.default_rng(2).integers(0, 256, (40, 50, 4), dtype=np.uint8),
    "clear.png": np.full((30, 30, 4), [9, 9, 9, 0], np.uint8),
    "cut.png": None,
}


@pytest.fixture
def odd_records(tmp_path):
    """Pictures of odd kinds, as records of a set; the last one cannot be read."""
    for name, pixels in ODD.items():
        if pixels is None:
            (tmp_path / name).write_bytes((tmp_path / "deep.png").read_bytes()[:200])
        else:
            Image.fromarray(pixels).save(tmp_path / name)
    return [ImageRecord(name, tmp_path / name) for name in ODD]


def test_pictures_that_show_nothing_or_cannot_be_read_teach_no_ranges(odd_records):
    found = telling(odd_records, 12, skip_bad=True)
    assert [record.id for record in found] == ["grey.png", "deep.png", "alpha.png"]
    assert len(telling(odd_records, 1, skip_bad=True)) == 1
    with pytest.raises(ImageError, match=r"cut\.png"):
        telling(odd_records, 12, skip_bad=False)
    nothing = [record for record in odd_records if record.id in ("1x1.png", "black.png", "clear.png")]
    with pytest.raises(
        DataError, match=r"^int8 needs a training picture that is not of one colour, got none among 3\.$"
    ):
        telling(nothing, 12, skip_bad=True)


@pytest.mark.slow
def test_a_run_of_odd_pictures_becomes_a_file_in_int8(command, network, odd_records, tmp_path):
    shutil.copytree(odd_records[0].path.parent, tmp_path / "data" / "odd")
    rng = np.random.default_rng(0)
    for number in range(6):
        (tmp_path / "data" / "plain").mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 99, (40, 50, 3), dtype=np.uint8)).save(tmp_path / f"data/plain/{number}.png")
    run = ["run", "--data", "folder", "--root", tmp_path / "data", "--out", tmp_path / "RUN", "--skip-bad", "--quiet"]
    more = ["--extractor", f"onnx:{network}?size=96", "--recipe", "plain", "--windows", "grid", "--max-windows", "20"]
    assert command(*run, *more, "--C", "1").status == 0
    export = ["export", "--out", tmp_path / "RUN", "--format", "onnx", "--precision", "int8"]
    result = command(*export, "--to", tmp_path / "a.onnx", "--no-comparison")
    assert result.status == 0, result.err
    assert "measured on 9 training pictures" in result.err
    detector = OnnxDetector((tmp_path / "a.onnx").read_bytes())
    assert all(np.isfinite(scores).all() for _, scores in detector.detect(read_image(odd_records[2].path)))


@pytest.mark.parametrize(("agreeing", "differing", "advised"), [(99, 1, False), (8, 2, True)])
def test_int8_that_finds_something_else_is_advised_against(agreeing, differing, advised):
    timed = SimpleNamespace(milliseconds=20.0), SimpleNamespace(milliseconds=10.0)
    pictures = compared(agreeing, differing)
    figures = precision_figures(pictures, timed, (14_000_000, 5_000_000), ["cat"], None)
    lines = list(precision_lines(figures, len(pictures)))
    assert figures["same_boxes"] == {"int8": agreeing / (agreeing + differing)}
    assert lines[0] == "int8: 10 ms a picture beside 20 of float32, by one thread; 5.0 MB beside 14.0"
    assert ("; export without --precision int8" in lines[1]) == advised


def test_int8_that_loses_average_precision_is_advised_against():
    timed = [SimpleNamespace(milliseconds=1.0)] * 2
    for pictures, end in ((compared(1, 0), "of float32 in 1 pictures"), (compared(0, 1), "without --precision int8")):
        figures = precision_figures(pictures, timed, (1, 1), ["cat"], KNOWN)
        assert list(precision_lines(figures, len(pictures)))[1].endswith(end)


def test_a_file_with_other_scores_is_not_written(refused, of_network, tmp_path, monkeypatch):
    scores = OnnxDetector.window_scores
    monkeypatch.setattr(OnnxDetector, "window_scores", lambda self, *given: scores(self, *given) + 2e-4)
    said = refused("export", "--out", of_network, "--format", "onnx", "--to", tmp_path / "a.onnx", "--quiet")
    assert "must equal the run's to 0.0001" in said
    assert not list(tmp_path.iterdir())


def compared(agreeing, differing, label=1):
    """Return pictures of a class in which the best boxes of both agree, and some in which they do not."""
    box, other = BOX, BOX + np.array([50, 0, 50, 0])
    record = SimpleNamespace(id="one", labels={"cat": label})
    pair = [(box, np.ones(1))]
    return [Compared(record, pair, [(where, np.ones(1))], 0.0) for where in [box] * agreeing + [other] * differing]


@pytest.mark.parametrize(("agreeing", "differing", "advised"), [(9, 1, False), (2, 8, True), (0, 0, False)])
def test_own_windows_that_find_something_else_are_advised_against(agreeing, differing, advised):
    lines = list(summary([*compared(agreeing, differing), *compared(0, 1, label=-1)], ["cat"], None))
    assert lines[0].startswith("scores of given windows")
    assert ["--inputs all" in line for line in lines[1:]] == [True] * advised
    assert not advised or "differ in 80% of the pictures" in lines[1]


def test_a_lower_average_precision_of_own_windows_comes_with_advice():
    advised = "give the file the windows of Predictor.propose"
    for pictures, end in ((compared(1, 0), "VOC AP 1.000 beside 1.000 of predict"), (compared(0, 1), advised)):
        lines = list(summary(pictures, ["cat"], KNOWN))
        assert len(lines) == 2
        assert lines[1].endswith(end)


REFUSED = {
    "a.onnx --per-class 2": "option --per-class chooses boxes of annotations",
    "a.onnx --threshold .5": "option --threshold chooses boxes of annotations",
    "a.onnx --labelled-only": "option --labelled-only chooses boxes of annotations",
    "a.onnx --copy": "option --copy chooses boxes of annotations",
    "a.onnx --inputs windows": "option --inputs must be one of picture, all",
    "a.onnx --set none": "option --set must be a set of the run",
    "there.onnx": "option --to must be a new file *.onnx",
    "detector.bin": "option --to must be a new file *.onnx",
    "folder": "option --to must be a new file *.onnx",
    "none/a.onnx": "option --to must name a file in a folder that is there",
}


@pytest.mark.parametrize("words", REFUSED)
def test_wrong_options_are_refused_before_the_comparison(refused, of_network, tmp_path, words):
    (tmp_path / "there.onnx").write_bytes(b"mine")
    name, *more = words.split()
    said = refused("export", "--out", of_network, "--format", "onnx", "--to", tmp_path / name, *more)
    assert REFUSED[words] in said
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"]


def test_a_run_without_a_network_is_refused(refused, finished, tmp_path):
    said = refused("export", "--out", finished, "--format", "onnx", "--to", tmp_path / "a.onnx", "--quiet")
    assert "extractor 'hog' is no network" in said
