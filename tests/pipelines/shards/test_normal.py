"""The source ``normal`` in a run: fitted once to good pictures, stored, and measured with like any other."""

import shutil

import numpy as np
import pytest
from lapsvm.pipelines.figures.maps.objectness_maps import open_recorded
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.shards import normal as normal_room

from lapsvm.catalog import read_image
from lapsvm.detection import Detector
from lapsvm.features import open_extractor, open_shards
from lapsvm.objectness import NormalMap, picture_objectness

from ...twins.networks import cells, onnx_network
from .bright_source import LABELS, TRAINED, are_measured, files, label, measured

FREE = sorted(name for name, label in LABELS.items() if not label and name < "30")


@pytest.fixture(scope="module")
def extractor(tmp_path_factory):
    """An extractor whose map of stride 8 has mean colours, and which has another of stride 32."""
    pytest.importorskip("onnxruntime")
    nodes = [("Conv", f"x kernel{side}", f"map{side}", {"strides": [side, side]}) for side in (8, 32)]
    made = {f"map{side}": [1, 3, f"rows{side}", f"columns{side}"] for side in (8, 32)}
    arrays = {f"kernel{side}": cells(np.eye(3), side) for side in (8, 32)}
    path = tmp_path_factory.mktemp("networks") / "colours.onnx"
    path.write_bytes(onnx_network(nodes, {"x": [1, 3, "h", "w"]}, made, arrays))
    return f"onnx:{path}?output=map32,map8&size=64"


@pytest.fixture
def fit(extract, extractor):
    """Run lapsvm extract with the network and a normal map."""

    def run(*more, out="RUN", objectness="normal", expected=0):
        return extract("--extractor", extractor, *more, out=out, objectness=objectness, expected=expected)

    return run


def stored(run):
    return {**files(run), "normal": (run / "normal.safetensors").read_bytes()}


def test_positive_pictures_are_measured_by_what_the_others_have(root, tmp_path, fit, extractor):
    assert "objectness: fitted to 18 training pictures of no class" in fit()
    network = open_extractor(f"{extractor}&context=appended").finer_than(24)  # as recipe best completes it
    source = NormalMap.fit(network, ((name, read_image(root / f"{name}.png")) for name in FREE))
    run = tmp_path / "RUN"
    assert are_measured(run) == TRAINED
    shards = open_shards(run / "shards" / "trainval")
    assert shards.objectness["fit"] == source.describe()["fit"]
    for picture in (one for shard in shards for one in shard.pictures()):
        if picture.objectness is not None:
            expected = picture_objectness(source, read_image(root / f"{picture.image_id}.png"), picture.boxes)
            np.testing.assert_array_equal(picture.objectness, expected)
    assert NormalMap.load(RunFolder(run).normal_map, network).pictures == tuple(FREE)
    assert not any(str(root).encode() in content for content in stored(run).values())


def test_bytes_are_the_same_for_any_threads_and_after_any_interruption(tmp_path, fit):
    fit("--jobs", "1", out="ONE")
    fit("--jobs", "3", out="THREE")
    expected = stored(tmp_path / "ONE")
    assert stored(tmp_path / "THREE") == expected
    assert "fitted" not in fit(out="ONE")
    (tmp_path / "ONE" / "normal.safetensors").unlink()
    assert "fitted" in fit(out="ONE")
    assert stored(tmp_path / "ONE") == expected
    path = tmp_path / "ONE" / "normal.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    assert "fitted" in fit(out="ONE")
    assert stored(tmp_path / "ONE") == expected
    assert "fitted" in fit("--redo", out="ONE")
    assert stored(tmp_path / "ONE") == expected


def test_a_run_without_it_gains_it_and_keeps_its_features(tmp_path, fit):
    fit(objectness="none")
    assert not (tmp_path / "RUN" / "normal.safetensors").exists()
    assert "the objectness of 12 pictures is measured; their features are kept" in fit()
    fit(out="AT_ONCE")
    assert stored(tmp_path / "RUN") == stored(tmp_path / "AT_ONCE")


def test_added_pictures_change_no_number_and_a_picture_that_turns_positive_changes_all(root, tmp_path, fit):
    label(root, {name: text for name, text in LABELS.items() if name not in ("06", "08")})
    fit()
    before, map_before = measured(tmp_path / "RUN"), stored(tmp_path / "RUN")["normal"]
    label(root, LABELS)
    assert "fitted" not in fit()
    assert stored(tmp_path / "RUN")["normal"] == map_before
    label(root, {**LABELS, "01": "cat"})
    assert "fitted to 17 training pictures" in fit()
    after = measured(tmp_path / "RUN")
    assert are_measured(tmp_path / "RUN") == TRAINED | {"01"}
    assert any(not np.array_equal(before[name], after[name]) for name in TRAINED)


def test_shards_of_another_run_bring_their_normal_map(tmp_path, fit):
    fit(out="FIRST")
    assert "fitted" not in fit("--shards-from", tmp_path / "FIRST", out="SECOND")
    assert stored(tmp_path / "SECOND") == stored(tmp_path / "FIRST")


def test_at_most_so_many_pictures_are_drawn_by_the_seed(tmp_path, fit, monkeypatch):
    monkeypatch.setattr(normal_room, "PICTURES", 11)
    kept = []
    for seed in ("0", "0", "1"):
        assert "fitted to 11 training" in fit("--seed", seed, out=f"RUN{len(kept)}")
        kept.append((tmp_path / f"RUN{len(kept)}" / "normal.safetensors").read_bytes())
    assert kept[0] == kept[1] != kept[2]


def test_too_few_pictures_of_no_class_are_refused_before_any_work(root, tmp_path, fit):
    label(root, {name: text or "cat" for name, text in LABELS.items()} | dict.fromkeys(FREE[:9], ""))
    said = fit(expected=2)
    assert said == (
        "lapsvm: --objectness normal needs at least 10 training pictures of no class, got 9; take --objectness none.\n"
    )
    assert not (tmp_path / "RUN" / "shards").exists()


def test_pictures_that_cannot_be_read_are_no_pictures_of_no_class(root, fit):
    for name in FREE[:9]:
        (root / f"{name}.png").write_bytes(b"no picture")
    assert fit("--skip-bad", expected=2).endswith("a normal map needs at least 10 negative pictures, got 9.\n")


def test_features_without_a_network_are_refused(extract):
    said = extract(objectness="normal", expected=2)
    assert said == "lapsvm: --objectness normal needs features of a network; take --objectness none.\n"


def test_a_file_of_another_program_is_not_replaced(tmp_path, fit):
    fit(objectness="none")
    (tmp_path / "RUN" / "normal.safetensors").write_bytes(b"mine")
    assert "normal.safetensors" in fit(expected=2)
    assert (tmp_path / "RUN" / "normal.safetensors").read_bytes() == b"mine"


def test_verify_reads_it(tmp_path, fit, command):
    fit()
    assert command("verify", "--out", tmp_path / "RUN").status == 0
    path = tmp_path / "RUN" / "normal.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    done = command("verify", "--out", tmp_path / "RUN")
    assert done.status == 2
    assert "normal.safetensors" in done.err


class Says(Reporter):
    """What is said to a user."""

    def __init__(self):
        super().__init__(quiet=True)
        self.lines = []

    def say(self, line):
        self.lines.append(line)


def test_heat_maps_show_it_by_the_run_that_holds_it(root, tmp_path, fit, command):
    fit()
    run = tmp_path / "RUN"
    train = ("--C", "1", "--folds", "2", "--quiet")
    assert command("train", "--out", run, *train).status == 0
    assert command("refine", "--out", run, "--refine", "1", "--quiet").status == 0
    files_of = sorted((run / "models").glob("*.safetensors"))
    detectors, said = [Detector.load(path) for path in files_of], Says()
    source = open_recorded(detectors, files_of, "cpu", said)
    assert source.describe() == open_shards(run / "shards" / "trainval").objectness
    assert not said.lines
    pixels = read_image(root / "00.png")
    assert source.map(pixels).max() == 1
    shutil.copytree(run, tmp_path / "COPY")
    (tmp_path / "COPY" / "normal.safetensors").unlink()
    copied = [tmp_path / "COPY" / "models" / path.name for path in files_of]
    assert open_recorded(detectors, copied, "cpu", said) is None
    assert said.lines[0].startswith("what stands out is not drawn: model ")


@pytest.mark.slow
def test_workers_measure_the_same_bytes(tmp_path, fit):
    pytest.importorskip("distributed", reason="dask is not installed")
    fit(out="HERE")
    fit("--executor", "dask", out="THERE")
    assert stored(tmp_path / "THERE") == stored(tmp_path / "HERE")
