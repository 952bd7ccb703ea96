"""The scripts in examples/, run on generated pictures."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from lapsvm.catalog import open_dataset
from lapsvm.detection import AlarmThreshold, Calibration, Detected, Detector, Predictor
from lapsvm.detection.onnx_file import FileContent, detector_file
from lapsvm.detection.onnx_file.content import NetworkPass
from lapsvm.detection.onnx_file.pooling import MapWeights
from lapsvm.settings import DetectSettings

from ..twins.networks import onnx_network

EXAMPLES = Path(__file__).parents[2] / "examples"
FAST = ["--windows", "grid", "--max-windows", "30", "--sizes", "160", "--C", "1", "--quiet"]


def run_example(name, *arguments):
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def save_picture(path, rng, bright):
    """Noise, with a bright or a dark square somewhere."""
    pixels = rng.integers(90, 160, (64, 80, 3)).astype(np.uint8)
    y, x = rng.integers(0, 40, 2)
    pixels[y : y + 20, x : x + 20] = 250 if bright else 5
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """One folder per class, with equal names in both."""
    root, rng = tmp_path_factory.mktemp("data") / "my pictures", np.random.default_rng(0)
    for name, bright in (("bright", True), ("dark", False)):
        for number in range(8):
            save_picture(root / name / f"{number} é.png", rng, bright)
    return root


def test_a_drawn_product_has_masks_where_defects_are_and_is_the_same_again(tmp_path):
    for name in ("one", "two"):
        run_example("draw_product.py", tmp_path / name / "product", tmp_path / name / "new", "--defects", 4)
    files = {path.relative_to(tmp_path / "one"): path.read_bytes() for path in (tmp_path / "one").rglob("*.png")}
    assert files == {
        path.relative_to(tmp_path / "two"): path.read_bytes() for path in (tmp_path / "two").rglob("*.png")
    }
    assert len(set(files.values())) == len(files) == 4 + 8 + 3 * 8 + 11
    dataset = open_dataset("mvtec", tmp_path / "one/product")
    assert dataset.classes == ("chip", "scratch", "stain")
    truth = dataset.ground_truth("test")
    for record in dataset.records("test"):
        shown = [name for name, label in record.labels.items() if label > 0]
        assert [name for name in truth if len(truth[name][record.id].boxes)] == shown
    assert sorted(path.name for path in (tmp_path / "one/new/tuesday").iterdir())[-1] == "3-hole.png"


@pytest.mark.slow
def test_the_notebook_finds_boxes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in json.loads((EXAMPLES / "first_boxes.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # noqa: S102 - our own text
    assert [len(boxes) for boxes in names["boxes"].values()] == [1, 1, 1]
    assert names["scored"].score_map("stain").values.shape == (240, 320)


@pytest.fixture(scope="module")
def worked(pictures, tmp_path_factory):
    """What the first example leaves."""
    work = tmp_path_factory.mktemp("examples") / "work"
    run_example("labels_to_yolo.py", pictures, work, *FAST)
    return work


@pytest.mark.slow
def test_labels_become_yolo_training_data(worked):
    rows = {
        path.relative_to(worked / "yolo/labels"): path.read_text() for path in worked.rglob("yolo/labels/*/*/*.txt")
    }
    assert len(rows) == 16
    for path, text in rows.items():
        (row,) = text.splitlines()
        number, *place = row.split()
        assert int(number) == ["bright", "dark"].index(path.parts[1])
        assert len(place) == 4
        assert (worked / "yolo/images" / path).with_suffix(".png").is_file()
    assert (worked / "run/page/index.html").is_file()


@pytest.mark.slow
def test_predictions_become_supervision_arguments(worked, pictures):
    picture = next((pictures / "bright").iterdir())
    assert str(picture) in run_example("supervision_detections.py", worked / "run/models", picture)
    spec = importlib.util.spec_from_file_location("supervision_detections", EXAMPLES / "supervision_detections.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = Predictor.open(worked / "run")(picture)
    arguments = module.detection_arrays(found)
    n = sum(len(own.boxes) for own in found.values())
    assert n > 0
    assert arguments["xyxy"].shape == (n, 4)
    assert (arguments["xyxy"][:, 2:] > arguments["xyxy"][:, :2]).all()
    both = [value for own in found.values() for value in own.probabilities]
    assert arguments["confidence"].tolist() == pytest.approx(both)
    without = {name: replace(own, probabilities=None) for name, own in found.items()}
    scores = module.detection_arrays(without)["confidence"]
    assert scores.tolist() == pytest.approx([value for own in found.values() for value in own.scores])
    names = np.array(["bright", "dark"])[arguments["class_id"]]
    assert names.tolist() == arguments["data"]["class_name"].tolist()
    assert set(names) == {"bright", "dark"}
    none = {name: Detected(np.empty((0, 4)), np.empty(0)) for name in found}
    assert module.detection_arrays(none)["xyxy"].shape == (0, 4)


@pytest.fixture
def video(tmp_path):
    """Seven frames with a bright square that goes to the right."""
    writer = cv2.VideoWriter(str(tmp_path / "one.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (80, 64))
    assert writer.isOpened()
    for number in range(7):
        pixels = np.random.default_rng(number).integers(90, 160, (64, 80, 3)).astype(np.uint8)
        pixels[20:40, 5 * number : 5 * number + 20] = 250
        writer.write(pixels)
    writer.release()
    return tmp_path / "one.avi"


@pytest.mark.slow
def test_a_video_gives_boxes_and_the_frame_rate(worked, video, tmp_path):
    drawn = tmp_path / "drawn.avi"
    command = [sys.executable, EXAMPLES / "video_detections.py", worked / "run", video, "--every", "2", "--most", "1"]
    done = subprocess.run([*command, "--drawn", drawn, "--threads", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["frame"] for row in rows] == [0, 2, 4, 6]
    assert [row["seconds"] for row in rows] == [0, 0.2, 0.4, 0.6]
    assert re.search(r"^4 frames in [\d.]+ s: [\d.]+ frames a second; the video has 10$", done.stderr, re.MULTILINE)
    predictor = Predictor.open(worked / "run", max_detections=1)
    reader, written = cv2.VideoCapture(str(video)), cv2.VideoCapture(str(drawn))
    expected = predictor(np.ascontiguousarray(reader.read()[1][:, :, ::-1]))["bright"]
    found = next(one for one in rows[0]["detections"] if one["class"] == "bright")
    assert found["box"] == expected.boxes[0].tolist()
    assert found["probability"] == pytest.approx(expected.probabilities[0])
    assert written.get(cv2.CAP_PROP_FRAME_COUNT) == 4
    two = subprocess.run([*command, "--threads", "2"], capture_output=True, text=True, check=True)
    assert two.stdout == done.stdout


@pytest.mark.slow
def test_a_file_that_is_no_video_ends_in_a_sentence(worked, tmp_path):
    (tmp_path / "text.mp4").write_text("no video")
    command = [sys.executable, EXAMPLES / "video_detections.py", worked / "run", tmp_path / "text.mp4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("the video must be a file that OpenCV reads, got ")


def test_no_example_starts_a_process():
    assert [path.name for path in EXAMPLES.glob("*.py") if "subprocess" in path.read_text(encoding="utf-8")] == []


@pytest.mark.slow
def test_cached_features_become_detectors(tmp_path):
    rng = np.random.default_rng(1)
    for folder in ("VOC/ImageSets/Main", "cache"):
        (tmp_path / folder).mkdir(parents=True)
    for set_name in ("trainval", "test"):
        ids, flags = [f"{set_name}{number}" for number in range(8)], [1, -1] * 4
        for image_id, flag in zip(ids, flags, strict=True):
            save_picture(tmp_path / f"VOC/JPEGImages/{image_id}.jpg", rng, flag == 1)
            boxes = np.vstack([[0, 0, 80, 64], np.tile([5, 5, 30, 30], (4, 1)) + rng.integers(0, 9, (4, 4))])
            features = rng.normal(size=(5, 6))
            features[rng.integers(0, 5), 0] += 5 * (flag == 1)
            np.savez(tmp_path / f"cache/{image_id}.npz", boxes=boxes, features=features)
        lists = tmp_path / "VOC/ImageSets/Main"
        (lists / f"{set_name}.txt").write_text("".join(f"{one}\n" for one in ids))
        rows = "".join(f"{one} {flag}\n" for one, flag in zip(ids, flags, strict=True))
        (lists / f"bright_{set_name}.txt").write_text(rows)
    run_example(
        "cached_rcnn_features.py", tmp_path / "cache", tmp_path / "VOC", tmp_path / "RUN", "--C", "1", "--quiet"
    )
    table = json.loads((tmp_path / "RUN/evaluation.json").read_text())
    assert table["sets"]["test"]["classes"]["bright"]["image_ap"] > 0.8
    assert (tmp_path / "RUN/page/index.html").is_file()


@pytest.mark.slow
def test_an_own_backbone_is_the_extractor(pictures, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    run_example("own_torch_backbone.py", pictures, tmp_path / "RUN", *FAST)
    assert "own_torch_backbone:edge_network" in (tmp_path / "RUN/run.toml").read_text()
    assert len(list((tmp_path / "RUN/models").glob("*.safetensors"))) == 2


@pytest.mark.slow
def test_a_network_learns_average_precision():
    pytest.importorskip("torch", reason="torch is not installed")
    said = run_example("rank_loss_training.py", "--steps", "15", "--chunks", "3").splitlines()
    assert [line.split(":")[0] for line in said] == ["cross-entropy", "ramp of ap"]
    assert all(0.2 < float(line.split()[-1]) < 1 for line in said)


@pytest.mark.slow
def test_a_retrieval_model_learns_from_padded_lists():
    pytest.importorskip("torch", reason="torch is not installed")
    before, after = run_example("retrieval_training.py", "--steps", "30").splitlines()
    assert float(after.split()[-1]) > float(before.split()[-1]) + 0.1


def test_a_cross_encoder_learns_to_rank_its_documents():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    nn = pytest.importorskip("lapsvm.nn")
    specification = importlib.util.spec_from_file_location("cross_encoder_loss", EXAMPLES / "cross_encoder_loss.py")
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)

    class Encoder(torch.nn.Linear):
        """A CrossEncoder as far as the example uses it: its features are the numbers of letters that pairs share."""

        device = torch.device("cpu")

        def preprocess(self, pairs, prompt=None, task=None):
            rows = [[float(len(set(query) & set(own))), float(len(own))] for query, own in pairs]
            return {"numbers": torch.tensor(rows), "task": task}

        def forward(self, tokens):
            return {"scores": super().forward(tokens["numbers"])}

    torch.manual_seed(0)
    encoder = Encoder(2, 1)
    torch.nn.init.constant_(encoder.weight, -0.1)
    loss = example.RankingLoss(encoder, nn.RankHingeLoss("ap", scale=10))  # a ramp is flat where all is wrong
    rows = ["abc", "xyz"], [["cab", "abx", "xyz", "q"], ["zyx", "abc", "aaaaa"]]
    labels = [torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 0])]
    optimizer, values = torch.optim.SGD(encoder.parameters(), lr=0.05), []
    for _ in range(40):
        optimizer.zero_grad()
        values.append(loss(rows, labels))
        values[-1].backward()
        optimizer.step()
    assert values[0].item() > 0.4
    assert values[-1].item() < 0.2


@pytest.fixture
def exported(tmp_path):
    """Detectors for two classes, the first calibrated, as a file for ONNX Runtime that decides on pictures."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    nodes = [("Conv", "picture kernel", "map", {"strides": [32, 32]})]
    arrays = {"kernel": np.full((4, 3, 32, 32), 1e-3, np.float32)}
    network = onnx_network(nodes, {"picture": [1, 3, "h", "w"]}, {"map": [1, 4, "r", "c"]}, arrays)
    passes = (NetworkPass(64, 32, "rgb", (127.5,) * 3, (0.01,) * 3, {"map": MapWeights(np.ones((4, 2)), None, True)}),)
    detectors = [
        Detector("square", np.ones(4), 0.0, calibration=Calibration(1.5, -2.0)), Detector("plain", np.ones(4), 0.1)
    ]  # fmt: skip
    alarm = AlarmThreshold(0.1, 0.05, {})
    content = FileContent(detectors, [DetectSettings(max_detections=5)] * 2, passes, 2048, 0.9, alarm=alarm)
    file = detector_file(content, network, "tiny", {"classes": '["square", "plain"]', "threshold": "0.1"})
    (tmp_path / "detector.onnx").write_bytes(file)
    return tmp_path / "detector.onnx"


@pytest.mark.slow
def test_an_exported_detector_needs_onnx_runtime_only(exported, tmp_path):
    save_picture(tmp_path / "one.png", np.random.default_rng(0), bright=True)
    said = json.loads(run_example("onnx_detector.py", exported, tmp_path / "one.png", "--most", "2"))
    assert [one["class"] for one in said["detections"]] == ["square", "square", "plain", "plain"]
    assert said["decision"] == "square"
    np.testing.assert_allclose(said["probability"], said["detections"][0]["probability"], rtol=1e-6)
    assert [one["probability"] is None for one in said["detections"]] == [False, False, True, True]
    assert "lapsvm" not in [line.split()[1] for line in (EXAMPLES / "onnx_detector.py").read_text().splitlines()
                            if line.startswith(("import", "from"))]  # fmt: skip


def compiled_example(name, program):
    """Compile a script for C++ against the ONNX Runtime of pkg-config, or of the compiler's own search paths."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    asked = ["pkg-config", "--cflags", "--libs", "libonnxruntime"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False) if shutil.which(asked[0]) else None
    flags = told.stdout.split() if told and told.returncode == 0 else ["-lonnxruntime"]
    command = ["g++", "-std=c++17", "-Wall", str(EXAMPLES / name), *flags, "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "onnxruntime_cxx_api.h: No such file" in done.stderr:
        pytest.skip("the headers of ONNX Runtime are not installed (libonnxruntime-dev)")
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


@pytest.mark.slow
def test_an_exported_detector_gives_the_same_boxes_in_cpp(exported, tmp_path):
    compiled_example("onnx_detector.cpp", tmp_path / "program")
    save_picture(tmp_path / "one.ppm", np.random.default_rng(0), bright=True)

    def said(*arguments):
        return subprocess.run([tmp_path / "program", *arguments], capture_output=True, text=True, check=False)

    decided, found = map(json.loads, said(exported, tmp_path / "one.ppm").stdout.splitlines())
    told = json.loads(run_example("onnx_detector.py", exported, tmp_path / "one.ppm"))
    expected = told["detections"]
    assert decided["decision"] == 1
    np.testing.assert_allclose(decided["probability"], told["probability"], rtol=1e-5)
    assert [["square", "plain"][one["class"]] for one in found] == [one["class"] for one in expected]
    for key in ("box", "score", "probability"):
        got, told = (np.array([one[key] for one in rows], np.float32) for rows in (found, expected))
        np.testing.assert_array_equal(got, told)
    likely = found[0]["probability"]
    kept = json.loads(said(exported, tmp_path / "one.ppm", str(likely + 1e-3)).stdout.splitlines()[1])
    assert [one["class"] for one in kept] == [1] * len(kept)  # what has no probability is kept
    assert len(kept) > 0
    assert "must be a binary PPM" in said(exported, exported).stderr
    (tmp_path / "short.ppm").write_bytes((tmp_path / "one.ppm").read_bytes()[:-1])
    assert "must have all its rows" in said(exported, tmp_path / "short.ppm").stderr
    assert said(tmp_path / "one.ppm").returncode == 1


@pytest.mark.parametrize("name", ["onnx_detector.mjs", "onnx_detector.cpp", "onnx_detector.cs"])
def test_examples_in_other_languages_ask_for_outputs_that_the_file_has(exported, name):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    lists = re.findall(r'[\[{] ?((?:"\w+"(?:, )?){2,}) ?[\]}]', (EXAMPLES / name).read_text())
    asked = {word for words in lists for word in re.findall(r"\w+", words)}
    assert {"boxes", "decision", "probability"} <= asked <= {output.name for output in session.get_outputs()}


def test_the_run_of_an_example_keeps_the_written_format(worked):
    """More runs, and damage: tests/pipelines/run/test_format.py."""
    assert " 0 rules broken." in run_example("validate_run.py", worked / "run")


STUB = """import contextlib, json
def log(kind, *values): print(json.dumps([kind, *values]))
def start_run(run_name): log("run", run_name); return contextlib.nullcontext()
def log_metrics(metrics, step=None): log("metrics", metrics, step)
def log_artifact(path): log("artifact", path)
"""


def test_figures_and_curves_are_sent(tmp_path):
    run, stub = tmp_path / "RUN", tmp_path / "stub"
    run.mkdir()
    stub.mkdir()
    (stub / "mlflow.py").write_text(STUB)
    sets = {"test": {"mean": {"ap_area": 0.5, "image_ap": None}}}
    (run / "evaluation.json").write_text(json.dumps({"sets": sets}))
    (run / "history.csv").write_text("class,role,C,step,objective,gap\ncat,final,1.0,3,2.5,0.01\n")
    command = [sys.executable, EXAMPLES / "experiment_tracking.py", run]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(stub)})
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        ["run", "RUN"],
        ["metrics", {"test/ap_area": 0.5}, None],
        ["metrics", {"cat/final/objective": 2.5, "cat/final/gap": 0.01}, 3],
        ["artifact", str(run / "run.toml")],
    ]
    (stub / "mlflow.py").write_text("raise ImportError")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(stub)})
    assert done.returncode == 2
    assert done.stderr == "mlflow is not installed: pip install mlflow\n"


def test_every_script_is_listed_and_tested():
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    for path in (*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.cpp")):
        assert f"({path.name})" in text
        assert f'"{path.name}"' in tests


def test_slides_are_scored_by_models_of_other_folds(tmp_path):
    h5py, rng = pytest.importorskip("h5py", reason="h5py is not installed"), np.random.default_rng(0)
    lines = ["slide,label"]
    for number in range(20):
        features = rng.normal(size=(12, 6)).astype(np.float32)
        features[7] += 6 * (number % 2)
        with h5py.File(tmp_path / f"s{number}.h5", "w") as file:
            file["features"], file["coords"] = features, 256 * np.stack(np.divmod(np.arange(12), 4), axis=1)
        lines.append(f"s{number},{number % 2}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    said = run_example(
        "slides.py", "--slides", tmp_path, "--labels", tmp_path / "labels.csv", "--out", tmp_path / "out"
    )
    assert said == "20 slides, held-out AUC 1.000\n"
    rows = [line.split(",") for line in (tmp_path / "out" / "scores.csv").read_text().split()][1:]
    assert len(rows) == 20
    assert {tuple(row[3:]) for row in rows if row[1] == "1"} == {("256", "768")}
    assert cv2.imread(str(tmp_path / "out" / "s3.png")).shape == (4 * 8, 3 * 8, 3)
