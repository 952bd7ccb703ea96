"""Verification: every byte of a run's files, and just the damaged ones made again."""

import json
import os
import re
import shlex
import shutil

import pytest
from PIL import Image


def flip(path, place):
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def test_a_finished_run_is_whole(finished, command):
    said = command("verify", "--out", finished)
    assert said.status == 0
    assert "files are intact." in said.err


@pytest.mark.parametrize(("pattern", "place"), [("shards/trainval/*", -1), ("shards/test/*", -5000), ("models/*", 400)])
def test_one_flipped_bit_is_found_and_named(run_copy, command, pattern, place):
    path = sorted(run_copy.glob(pattern + ".safetensors"))[-1]
    flip(path, max(place, -path.stat().st_size + 9))
    said = command("verify", "--out", run_copy)
    assert said.status == 2
    assert "1 of " in said.err
    assert str(path) in said.err
    assert path.exists()


def test_what_is_removed_is_made_again_to_the_same_bytes(run_copy, command, made):
    before = made(run_copy)
    shard, model = run_copy / "shards" / "trainval" / "0000001.safetensors", run_copy / "models" / "six.safetensors"
    flip(shard, -1)
    model.write_bytes(model.read_bytes()[:300])
    times = {path: path.stat().st_mtime_ns for path in run_copy.glob("shards/*/*")}
    said = command("verify", "--out", os.path.relpath(run_copy), "--remove", "--json")
    assert said.status == 0
    assert "2 removed." in said.err
    assert sorted(json.loads(said.out)["figures"]["removed"]) == [str(model.resolve()), str(shard.resolve())]
    assert command("run", "--out", run_copy, "--quiet").status == 0
    assert made(run_copy) == before
    changed = [path for path in run_copy.glob("shards/*/*") if path.stat().st_mtime_ns != times[path]]
    assert changed == [shard]


def test_programs_get_the_damaged_and_lost_files_and_one_line(run_copy, command, refused):
    shard, model = run_copy / "shards" / "trainval" / "0000001.safetensors", run_copy / "models" / "six.safetensors"
    flip(shard, -1)
    (run_copy / "shards" / "test" / "0000000.safetensors").unlink()
    model.write_bytes(model.read_bytes()[:300])
    said = command("verify", "--out", run_copy, "--json")
    assert said.status == 2
    assert said.err.count("\n") == 1
    assert said.err.startswith("lapsvm: 2 of ")
    answer = json.loads(said.out)
    figures = answer["figures"]
    assert figures["damaged"].keys() == {str(shard), str(model)}
    assert all(path in reason for path, reason in figures["damaged"].items())
    assert (figures["lost"], figures["removed"]) == ([str(run_copy / "shards/test/0000000.safetensors")], [])
    assert answer["next"] == f"lapsvm verify --out {run_copy} --remove"
    removed = command(*shlex.split(answer["next"])[1:], "--json")
    assert removed.status == 0, removed
    assert json.loads(removed.out)["figures"] == {**figures, "removed": [str(shard), str(model)]}
    lost = command("verify", "--out", run_copy, "--json")
    assert (lost.status, lost.err.count("\n")) == (2, 1)
    answer = json.loads(lost.out)
    assert len(answer["figures"]["lost"]) == 3
    assert answer["figures"]["damaged"] == {}
    assert answer["next"] == f"lapsvm run --out {run_copy}"
    shutil.rmtree(run_copy)
    assert "holds neither shards nor models" in refused("verify", "--out", run_copy, "--json")


def test_a_copy_without_shards_is_whole_works_and_says_so(run_copy, command):
    shutil.rmtree(run_copy / "shards")
    for verb in ("verify", "evaluate"):
        assert command(verb, "--out", run_copy, "--quiet").status == 0
    assert json.loads(command("verify", "--out", run_copy, "--json").out)["figures"]["lost"]
    assert "a copy of a run may be without its shards." in command("verify", "--out", run_copy).err


def test_a_lost_shard_is_named_by_every_stage(run_copy, refused):
    (run_copy / "shards/trainval/0000001.safetensors").unlink()
    page = ["review", "--page", run_copy.parent / "page.html"]
    export = ["export", "--to", run_copy.parent / "X", "--format", "coco"]
    for verb, *more in (page, export, ["evaluate"], ["report"], ["refine", "--refine", "1"], ["train"], ["detect"]):
        line = refused(verb, "--out", run_copy, *more)
        assert "extract first." in line
        assert "trained with" not in line


def test_shards_of_pictures_that_are_gone_are_not_lost(finished, digits, tmp_path, command):
    root, run = shutil.copytree(digits, tmp_path / "data"), shutil.copytree(finished, tmp_path / "RUN")
    for path in (root / "ImageSets" / "Main").glob("*trainval.txt"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:20]))
    shards = len(list(run.glob("shards/trainval/*")))
    assert command("run", "--out", run, "--root", root, "--redo", "--quiet").status == 0
    assert len(list(run.glob("shards/trainval/*"))) < shards
    for verb in ("verify", "evaluate", "report"):
        assert command(verb, "--out", run, "--quiet").status == 0


def replaced(root, index):
    """Replace a training picture by another of the same size, and return its id."""
    image_id = (root / "ImageSets" / "Main" / "trainval.txt").read_text().split()[index]
    path = root / "JPEGImages" / f"{image_id}.jpg"
    Image.open(path).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(path)
    return image_id


def test_a_picture_that_was_replaced_is_found_if_it_is_asked_for(finished, digits, tmp_path, command):
    root = shutil.copytree(digits, tmp_path / "data")
    run = shutil.copytree(finished, tmp_path / "RUN")
    settings = (run / "run.toml").read_text()
    (run / "run.toml").write_text(settings.replace(str(digits), str(root)))
    assert command("verify", "--out", run, "--pictures").status == 0
    image_id = replaced(root, 20)
    assert command("verify", "--out", run).status == 0
    shard = run / "shards" / "trainval" / "0000001.safetensors"
    said = command("verify", "--out", run, "--pictures")
    assert said.status == 2
    assert f"shard {shard} was made from another picture {image_id} than the data set has now." in said.err
    assert command("verify", "--out", run, "--pictures", "--remove").status == 0
    assert not shard.exists()
    again = command("run", "--out", run)
    assert again.status == 0
    assert "trained again: six, three" in again.err  # the models were those of the old picture
    assert command("verify", "--out", run, "--pictures").status == 0


def test_a_picture_that_cannot_be_read_says_nothing_about_its_shard(finished, digits, tmp_path, refused):
    root = shutil.copytree(digits, tmp_path / "data")
    run = shutil.copytree(finished, tmp_path / "RUN")
    (run / "run.toml").write_text((run / "run.toml").read_text().replace(str(digits), str(root)))
    gone = sorted((root / "JPEGImages").iterdir())[0]
    gone.unlink()
    assert str(gone) in refused("verify", "--out", run, "--pictures", "--remove")
    assert len(list(run.glob("shards/*/*.safetensors"))) == len(list(finished.glob("shards/*/*.safetensors")))


DAMAGED = {
    "shards/trainval/0000001.safetensors": "extract",
    "models/six.safetensors": "train",
    "heldout/three.safetensors": "train",
    "detections/test/comp3_det_test_six.txt": "detect",
    "detections/trainval/detections.json": "detect",
    "evaluation.json": "evaluate",
    "page/index.html": "report",
    "folds/six.safetensors": "train",
    "history.csv": "",
    "timings.json": "",
}


def test_repair_removes_a_damaged_file_and_names_the_command(run_copy, command, made):
    before = made(run_copy)
    for name, stage in DAMAGED.items():
        path = run_copy / name
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2].rstrip(b"\n"))  # a table that ends with a row is a shorter table
        said = command("verify", "--out", run_copy, "--repair")
        assert said.status == 0, said.err
        assert not path.exists()
        again = f"lapsvm run --out {run_copy} makes again what is not there, and nothing else: 1 of {stage}."
        anew = f"{path} begins anew with the next command that adds to it."
        assert (again if stage else anew) in said.err
        path.write_bytes(whole)
    for name in DAMAGED:
        (run_copy / name).unlink()
    assert command("run", "--out", run_copy, "--quiet").status == 0
    assert made(run_copy) == before
    assert all((run_copy / name).exists() for name in DAMAGED)
    assert command("verify", "--out", run_copy, "--repair").status == 0


def test_repair_of_a_whole_run_changes_nothing(run_copy, command):
    before = {path: path.read_bytes() for path in run_copy.rglob("*") if path.is_file()}
    said = command("verify", "--out", run_copy, "--repair")
    assert said.status == 0
    assert "makes again" not in said.err
    assert {path: path.read_bytes() for path in run_copy.rglob("*") if path.is_file()} == before


def test_repair_leaves_what_a_person_wrote_and_what_is_behind_links(run_copy, command, tmp_path):
    (run_copy / "verdicts.jsonl").write_text('{"picture": "a"\n')
    mine = tmp_path / "mine.json"
    (run_copy / "evaluation.json").rename(mine)
    mine.write_text("{")
    (run_copy / "evaluation.json").symlink_to(mine)
    said = command("verify", "--out", run_copy, "--repair")
    assert said.status == 2
    assert "It stays." in said.err
    assert mine.read_text() == "{"
    assert (run_copy / "verdicts.jsonl").read_text() == '{"picture": "a"\n'


LOST = {
    "shards/trainval/0000001.safetensors": "extract",
    "models/six.safetensors": "train",
    "models": "train",
    "folds": "train",
    "heldout": "train",
    "detections": "detect",
    "detections/test/detections.json": "detect",
    "evaluation.json": "evaluate",
    "page": "report",
    "page/index.html": "report",
    "shards/test": "extract",
}


def test_what_is_lost_is_named_with_the_command_that_makes_it(run_copy, tmp_path, command, made):
    before = made(run_copy)
    away = tmp_path / "away"
    for name, stage in LOST.items():
        path = run_copy / name
        path.rename(away)
        said = command("verify", "--out", run_copy)
        assert said.status == 2
        assert f"{path}" in said.err
        assert "lapsvm run makes only these again." in said.err
        repaired = command("verify", "--out", run_copy, "--repair")
        assert repaired.status == 0
        assert f"{path}" in repaired.err
        assert re.search(rf"makes again what is not there, and nothing else: \d+ of {stage}\.", repaired.err)
        away.rename(path)
    for name in ("shards/test", "folds", "heldout", "detections", "page"):
        shutil.rmtree(run_copy / name)
    assert command("run", "--out", run_copy, "--quiet").status == 0
    assert made(run_copy) == before
    assert command("verify", "--out", run_copy).status == 0


@pytest.mark.parametrize("content", [None, "[[["])
def test_settings_that_are_lost_or_garbage_are_named_and_stay(run_copy, command, content):
    path = run_copy / "run.toml"
    path.unlink() if content is None else path.write_text(content)
    for how in ([], ["--remove"], ["--repair"]):
        said = command("verify", "--out", run_copy, *how)
        assert said.status == 2
        assert f"{path}" in said.err
        assert "with the options of the first command of the run, writes" in said.err
    assert content is None or path.read_text() == content


@pytest.mark.parametrize("content", [None, "lapsvm files 1\n3\n"])
def test_a_list_of_files_that_is_lost_or_damaged_is_named_and_nothing_is_removed(run_copy, command, content):
    path = run_copy / ".lapsvm-files"
    path.unlink() if content is None else path.write_text(content)
    flip(run_copy / "models" / "six.safetensors", -1)
    shutil.rmtree(run_copy / "page")
    before = {file: file.read_bytes() for file in run_copy.rglob("*") if file.is_file()}
    for how in ([], ["--remove"], ["--repair"]):
        said = command("verify", "--out", run_copy, *how)
        assert said.status == 2
        assert f"{path} is {'not there' if content is None else 'damaged'}" in said.err
        assert f"{run_copy / 'page' / 'index.html'} is not there" in said.err
        assert "six.safetensors is damaged" in said.err
        assert f"lapsvm run --out NEW --shards-from {run_copy}" in said.err
    assert {file: file.read_bytes() for file in run_copy.rglob("*") if file.is_file()} == before


def test_a_history_that_is_lost_begins_anew_once_that_is_accepted(run_copy, command):
    (run_copy / "history.csv").unlink()
    assert "lapsvm verify --repair begins it anew." in command("verify", "--out", run_copy).err
    assert command("verify", "--out", run_copy, "--repair").status == 0
    assert command("verify", "--out", run_copy).status == 0


def test_a_run_is_whole_after_each_of_its_stages(digits, tmp_path, command):
    out = ("--out", tmp_path / "RUN", "--quiet")
    small = ["--data", "voc", "--root", digits, "--classes", "six,three", "--extractor", "hog?size=16", "--pca", "8"]
    options = {"extract": [*small, "--max-windows", "20"], "refine": ["--refine", "1"]}
    options["tune"] = ["--C", "1,10", "--folds", "2"]
    for stage in ("extract", "tune", "refine", "detect", "evaluate", "report"):
        assert command(stage, *out, *options.get(stage, [])).status == 0, stage
        said = command("verify", *out)
        assert said.status == 0, (stage, said.err)
