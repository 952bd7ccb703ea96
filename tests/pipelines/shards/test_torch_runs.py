"""Runs on networks of torch: the same bytes for any number of threads, prediction, devices, and what is refused."""

import json
import os
import sys
from functools import partial

import numpy as np
import pytest

from lapsvm.features import open_shards
from lapsvm.features.extractors import torch_network, torch_running

from ..calls import done

torch = pytest.importorskip("torch", reason="torch is not installed")

FACTORY = """
from torch import nn


def map_of_colours():
    return nn.Sequential(nn.AvgPool2d(16), nn.Conv2d(3, 6, 1), nn.ReLU())


def fine_map():
    return nn.Sequential(nn.AvgPool2d(4), nn.Conv2d(3, 9, 1), nn.ReLU())
"""
OPTIONS = [
    *("--extractor", "torch:run_nets:map_of_colours?size=128&norm=l2"),
    *("--extractor", "torch:run_nets:fine_map?size=64&contrast=0"),
    *("--sizes", "96", "--set=features.contrast=0.3", "--device", "cpu", "--quiet"),
]


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    """The module of factories, importable; its folder."""
    folder = tmp_path_factory.mktemp("nets")
    (folder / "run_nets.py").write_text(FACTORY)
    sys.path.insert(0, str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAPSVM_TRUSTED_MODULES", "run_nets")
        yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("run_nets", None)


@pytest.fixture(scope="module")
def out(nets, digits, fast_network, tmp_path_factory):
    """A run on two networks of torch; not to be changed."""
    run = tmp_path_factory.mktemp("torch") / "RUN"
    done("run", "--data", "voc", "--root", digits, "--out", run, *fast_network, *OPTIONS, "--jobs", "1")
    return run


def test_any_number_of_threads_gives_the_same_bytes(out, digits, fast_network_extraction, tmp_path, command, made):
    other = tmp_path / "OTHER"
    said = command(
        "extract", "--data", "voc", "--root", digits, "--out", other, *fast_network_extraction, *OPTIONS, "--jobs", "5"
    )
    assert said.status == 0, said.err
    shards = "shards/*/*.safetensors"
    assert made(out, shards) == made(other, shards)
    stored = open_shards(out / "shards" / "trainval")
    assert stored.dim == 6 + 9
    parts = stored.provenance["features"]["extractor"]["parts"]
    assert [parts[key].get("contrast") for key in "01"] == [0.3, 0.0]


@pytest.mark.parametrize("more", [(), ("--pca", "5")], ids=["all features", "projected"])
def test_maps_that_stay_on_a_device_give_the_features_to_float16s_rounding(
    digits, fast_network_extraction, tmp_path, command, monkeypatch, more
):
    """The device is torch's processor; its way is taken because the network is made to keep its maps."""
    runs = {}
    for name, keeps_maps, jobs in (("here", False, 1), ("there", True, 5)):
        network = partial(torch_running.TorchNetwork, keeps_maps=keeps_maps)
        monkeypatch.setattr(torch_network, "TorchNetwork", network)
        line = ["--data", "voc", "--root", digits, "--out", tmp_path / name, *fast_network_extraction, *OPTIONS, *more]
        said = command("extract", *line, "--jobs", jobs)
        assert said.status == 0, said.err
        shards = open_shards(tmp_path / name / "shards" / "trainval")
        runs[name] = np.concatenate([shard.features.astype(float) for shard in shards])
    assert runs["here"].any()
    np.testing.assert_allclose(runs["there"], runs["here"], rtol=2**-10, atol=2**-11 * np.abs(runs["here"]).max())


def test_prediction_measures_what_extraction_did(out, digits, command):
    picture = sorted((digits / "JPEGImages").glob("*.jpg"))[-1]
    said = command(
        "predict", "--model", out / "models", picture, "--max-detections", "100", "--device", "cpu", "--threshold", "0"
    )
    found = [one["score"] for one in json.loads(said.out)[0]["detections"] if one["class"] == "six"]
    lines = (out / "detections" / "test" / "comp3_det_test_six.txt").read_text().splitlines()
    stored = [float(line.split()[1]) for line in lines if line.split()[0] == picture.stem]
    assert len(stored) > 3
    assert found[:3] == pytest.approx(stored[:3], abs=0.02 * np.ptp(stored))


def test_another_normalisation_over_an_old_cache_is_refused(out, digits, fast_network, refused):
    changed = [text.replace("norm=l2", "norm=none") for text in OPTIONS]
    line = refused("run", "--data", "voc", "--root", digits, "--out", out, *fast_network, *changed)
    assert "norm 'l2' instead of 'none'" in line


def test_a_file_of_weights_is_known_from_anywhere(
    nets, digits, fast_network_extraction, tmp_path, command, monkeypatch
):
    import run_nets

    torch.save(run_nets.map_of_colours().state_dict(), tmp_path / "colours.pth")
    monkeypatch.chdir(tmp_path)
    text, end = "torch:run_nets:map_of_colours?weights=colours.pth&size=64", ["--out", "RUN", "--quiet"]
    extract = ["extract", "--data", "voc", "--root", digits, *fast_network_extraction, "--extractor", text, *end]
    assert command(*extract).status == 0
    assert f"weights={tmp_path / 'colours.pth'}&size=64" in (tmp_path / "RUN" / "run.toml").read_text()
    assert str(tmp_path).encode() not in next((tmp_path / "RUN" / "shards").rglob("*.safetensors")).read_bytes()
    os.chdir("/")
    assert command("extract", "--out", tmp_path / "RUN", "--quiet").status == 0


def test_a_gpu_that_is_not_there_is_one_sentence(digits, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    line = refused("run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", "--device", "cuda")
    assert line == "lapsvm: device cuda needs a GPU that torch can use, and there is none; use cpu or auto.\n"
    assert not (tmp_path / "RUN").exists()


def test_without_torch_the_extra_is_named(digits, tmp_path, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    start = ["run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN"]
    for more in (["--extractor", "torch:a.b:c"], ["--device", "cuda"]):
        assert 'needs torch, which is not installed; pip install ".[torch]" in the folder of the source.' in refused(
            *start, *more
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torch:resnet", "torch must be followed by PACKAGE.MODULE:FACTORY"),
        ("torch:alexnet", "weights of alexnet must be named: weights=FILE"),
        ("torch:collections:OrderedDict?weights=absent.pth", "file of weights absent.pth is not there"),
        ("torch:absent_nets:make", "module absent_nets cannot be found"),
    ],
)
def test_what_cannot_be_opened_is_one_line_and_leaves_no_shards(digits, tmp_path, refused, text, words):
    out = tmp_path / "RUN"
    assert words in refused("run", "--data", "voc", "--root", digits, "--out", out, "--extractor", text)
    assert not list(out.rglob("*.safetensors"))
