"""Objectness that finished shards lack: it alone is measured, and features keep their bytes."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.features import open_shards, read_shard

from .bright_source import LABELS, TRAINED, Brightest, are_measured, features, files, hashes, label, measured


@pytest.mark.usefixtures("plain_run")
def test_numbers_that_finished_shards_lack_are_measured_alone(root, tmp_path, made_once, extract, source, unseen):
    before = features(tmp_path / "RUN")
    unseen()
    bright = source(Brightest())
    said = extract(objectness="bright")
    assert f"set trainval: the objectness of {len(TRAINED)} pictures is measured; their features are kept" in said
    assert sorted(bright.seen) == hashes(root, TRAINED)
    assert files(tmp_path / "RUN") == files(made_once / "BRIGHT")
    assert features(tmp_path / "RUN") == before
    timings = RunFolder(tmp_path / "RUN").timings()
    assert timings["objectness trainval"]["pictures"] == len(TRAINED)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("RUN/shards/*/*")}
    again = source(Brightest())
    assert "is measured" not in extract(objectness="bright")
    assert again.seen == []
    assert {path: path.stat().st_mtime_ns for path in written} == written


@pytest.mark.usefixtures("bright_run")
def test_shards_with_numbers_serve_a_run_that_asks_for_none(tmp_path, extract, source, unseen):
    before = files(tmp_path / "RUN")
    unseen()
    extract()
    assert files(tmp_path / "RUN") == before


@pytest.mark.usefixtures("bright_run")
def test_pictures_that_turn_positive_are_measured_and_others_keep_their_numbers(
    root, tmp_path, extract, source, unseen
):
    before = measured(tmp_path / "RUN")
    label(root, LABELS | {"01": "dog", "02": "", "31": "cat"})
    unseen()
    bright = source(Brightest())
    extract(objectness="bright")
    assert bright.seen == hashes(root, ["01"])
    after = measured(tmp_path / "RUN")
    assert {name for name, numbers in after.items() if numbers is not None} == TRAINED | {"01"}
    for name in TRAINED:
        np.testing.assert_array_equal(after[name], before[name])


@pytest.mark.parametrize(("other", "is_other"), [({"level": 180}, True), ({"runtime": {"version": "2"}}, False)])
@pytest.mark.usefixtures("bright_run")
def test_another_source_measures_all_positive_pictures_again(root, tmp_path, extract, source, unseen, other, is_other):
    before = features(tmp_path / "RUN")
    label(root, LABELS | {"02": "", "25": ""})
    unseen()
    bright = source(Brightest(**other))
    extract(objectness="bright")
    assert features(tmp_path / "RUN") == before
    assert sorted(bright.seen) == (hashes(root, TRAINED - {"02", "25"}) if is_other else [])
    assert are_measured(tmp_path / "RUN") == (TRAINED - {"02", "25"} if is_other else TRAINED)
    assert open_shards(tmp_path / "RUN" / "shards" / "trainval").objectness["level"] == other.get("level", 128)


@pytest.mark.usefixtures("bright_run")
def test_a_shard_loses_the_numbers_of_another_source_though_none_of_its_pictures_is_positive(
    root, tmp_path, extract, source
):
    label(root, {name: "" if name >= "16" else text for name, text in LABELS.items()})
    source(Brightest(180))
    extract(objectness="bright")
    assert are_measured(tmp_path / "RUN") == {name for name in TRAINED if name < "16"}
    assert "objectness" not in read_shard(tmp_path / "RUN" / "shards" / "trainval" / "0000001.safetensors").provenance


@pytest.mark.usefixtures("plain_run")
def test_a_failure_between_shards_is_continued_after_them(root, tmp_path, made_once, extract, source, unseen):
    before, unmeasured = features(tmp_path / "RUN"), files(tmp_path / "RUN")
    bright = source(Brightest())
    bright.fails_after = sum(name < "16" for name in TRAINED) + 1  # one picture into the second shard
    assert "the network broke" in extract("--jobs", "1", objectness="bright", expected=2)
    assert features(tmp_path / "RUN") == before
    first, second = (f"shards/trainval/{index:07}.safetensors" for index in (0, 1))
    assert files(tmp_path / "RUN")[first] == files(made_once / "BRIGHT")[first]
    assert files(tmp_path / "RUN")[second] == unmeasured[second]
    unseen()
    bright = source(Brightest())
    extract(objectness="bright")
    assert sorted(bright.seen) == hashes(root, [name for name in TRAINED if name >= "16"])
    assert files(tmp_path / "RUN") == files(made_once / "BRIGHT")


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from bright_source import Brightest
from lapsvm.pipelines.commands.verbs import main
from lapsvm.pipelines.stages import extract
class Killed(Brightest):
    def regions(self, pixels):
        if len(self.seen) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().regions(pixels)
extract.open_objectness = lambda text, device: None if text == "none" else Killed()
main(sys.argv[3:])
"""


@pytest.mark.usefixtures("plain_run")
def test_a_killed_process_is_continued(root, tmp_path, made_once, extract, source):
    line = ["extract", "--out", str(tmp_path / "RUN"), "--objectness", "bright", "--jobs", "1", "--quiet"]
    code = [sys.executable, "-c", KILLED, str(Path(__file__).parent), "8", *line]
    done = subprocess.run(code, check=False, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == -signal.SIGKILL
    bright = source(Brightest())
    extract(objectness="bright")
    assert len(bright.seen) == len(TRAINED) - 7  # those of the first shard
    assert files(tmp_path / "RUN") == files(made_once / "BRIGHT")
    assert not list(tmp_path.glob("RUN/shards/*/.*"))


def test_shards_of_another_run_are_completed_in_their_copies(root, tmp_path, made_once, extract, source, unseen):
    before = files(made_once / "PLAIN")
    unseen()
    bright = source(Brightest())
    extract("--shards-from", made_once / "PLAIN", objectness="bright")
    assert sorted(bright.seen) == hashes(root, TRAINED)
    assert files(made_once / "PLAIN") == before
    assert files(tmp_path / "RUN") == files(made_once / "BRIGHT")
    nothing = source(Brightest())
    extract("--shards-from", made_once / "BRIGHT", out="THIRD", objectness="bright")
    assert nothing.seen == []
    assert files(tmp_path / "THIRD") == files(made_once / "BRIGHT")


def test_pictures_that_are_gone_or_renamed_leave_the_numbers_of_the_others(root, tmp_path, extract, source, unseen):
    source(Brightest())
    extract(objectness="bright")
    before = measured(tmp_path / "RUN")
    (root / "02.png").rename(root / "renamed.png")
    (root / "00.png").unlink()
    labels = {"renamed" if name == "02" else name: text for name, text in LABELS.items() if name != "00"}
    rows = [f"{name}.png,{text},{'test' if '30' <= name <= '39' else 'trainval'}" for name, text in labels.items()]
    (root / "labels.csv").write_text("\n".join(["image,label,set", *rows]))
    unseen()
    bright = source(Brightest())
    extract(objectness="bright")
    after = measured(tmp_path / "RUN")
    assert bright.seen == []
    assert set(after) == set(before) - {"00", "02"} | {"renamed"}
    np.testing.assert_array_equal(after["renamed"], before["02"])
    assert {name for name, one in after.items() if one is not None} == TRAINED - {"00", "02"} | {"renamed"}


@pytest.mark.usefixtures("plain_run")
def test_a_picture_with_other_pixels_than_its_features_is_refused_with_the_way_out(
    root, tmp_path, extract, source, command
):
    shutil.copy(root / "01.png", root / "02.png")
    before = features(tmp_path / "RUN")
    source(Brightest())
    said = extract(objectness="bright", expected=2)
    assert "picture 02 has other pixels than its features in " in said
    assert "lapsvm verify --pictures --remove" in said
    assert features(tmp_path / "RUN") == before
    assert "02" not in are_measured(tmp_path / "RUN")
    assert command("verify", "--out", tmp_path / "RUN", "--root", root, "--pictures", "--remove").status == 0
    extract(objectness="bright")
    assert are_measured(tmp_path / "RUN") == TRAINED


@pytest.mark.usefixtures("plain_run")
def test_a_picture_that_is_gone_bad_keeps_no_numbers_where_bad_ones_are_skipped(root, tmp_path, extract, source):
    (root / "02.png").write_bytes((root / "02.png").read_bytes()[:300])
    source(Brightest())
    assert "02.png" in extract(objectness="bright", expected=2)
    extract("--skip-bad", objectness="bright")
    assert are_measured(tmp_path / "RUN") == TRAINED - {"02"}
    bright = source(Brightest())
    extract("--skip-bad", objectness="bright")
    assert bright.seen == []


@pytest.mark.usefixtures("bright_run")
def test_a_number_that_is_damaged_is_found_and_its_shard_is_made_again(root, tmp_path, extract, source, command):
    before = files(tmp_path / "RUN")
    path = tmp_path / "RUN" / "shards" / "trainval" / "0000000.safetensors"
    number = next(one for one in measured(tmp_path / "RUN").values() if one is not None)[-1:].tobytes()
    place = path.read_bytes().index(number, path.read_bytes().index(b"\x00\x00\xc0\x7f"))
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert "0000000.safetensors is damaged" in command("verify", "--out", tmp_path / "RUN").err
    bright = source(Brightest())
    assert "is damaged; it is made again" in extract(objectness="bright")
    assert sorted(bright.seen) == hashes(root, [name for name in TRAINED if name < "16"])
    assert files(tmp_path / "RUN") == before


@pytest.mark.parametrize("verb", ["run", "extract"])
@pytest.mark.usefixtures("plain_run")
def test_a_run_that_was_refined_without_a_source_is_refused_with_one_before_a_byte_changes(
    root, tmp_path, extract, source, command, verb
):
    out = tmp_path / "RUN"
    assert command("train", "--out", out, "--C", "1", "--folds", "2").status == 0
    assert command("refine", "--out", out, "--refine", "1").status == 0
    before = files(out), (out / "run.toml").read_bytes()
    bright = source(Brightest())
    found = command(verb, "--out", out, "--objectness", "bright")
    if verb == "extract":  # refinement is asked for by a command of its own
        assert (found.status, are_measured(out)) == (0, TRAINED)
        assert command("refine", "--out", out, "--redo").status == 0
    else:
        assert (found.status, bright.seen) == (2, [])
        assert (files(out), (out / "run.toml").read_bytes()) == before
        assert "use another --out, or --redo to train again." in found.err
