"""Damage, interruption and changed settings: told in a sentence, and what was made stays."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lapsvm.datasets.digits import write_digits
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts
from PIL import Image

from lapsvm.catalog import open_dataset

MADE = ("shards/*/*", "models/*.safetensors", "detections/*/*.txt", "evaluation.json", "verdicts.jsonl")
QUICK = ["--extractor", "hog", "--C", "1"]
TIMES = "10" if os.environ.get("FUZZ_SECONDS") else "4"
"""Interruptions of a run, half of them in extraction."""


@pytest.fixture
def arguments(fast):
    """Return the command line of a fast run."""
    return lambda root, out, *more: ["run", "--data", "voc", "--root", root, "--out", out, *fast, *more]


SHARD = "shards/trainval/0000001.safetensors"


def flipped(content, place):
    """Return content with one bit changed."""
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGES = {
    "cut": (SHARD, lambda content: content[:-100]),
    "a feature": (SHARD, lambda content: flipped(content, len(content) - 1)),
    "the header": (SHARD, lambda content: flipped(content, 9)),
    "the seed": (SHARD, lambda content: flipped(content, content.index(b'seed\\":') + 7)),
    "a cut model": ("models/six.safetensors", lambda content: content[:50]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_makes_just_what_is_damaged_again(run_copy, finished, digits, command, arguments, made, damage):
    name, change = DAMAGES[damage]
    path = run_copy / name
    path.write_bytes(change(path.read_bytes()))
    times = {one: one.stat().st_mtime_ns for one in (*run_copy.glob("shards/*/*"), *run_copy.glob("models/*"))}
    assert command(*arguments(digits, run_copy)).status == 0
    assert made(run_copy) == made(finished)
    assert [one for one in times if one.stat().st_mtime_ns != times[one]] == [path]


@pytest.mark.parametrize(
    ("set_name", "harm"), [("trainval", lambda path: path.unlink()), ("test", lambda path: path.write_bytes(b"half"))]
)
def test_a_run_with_boxes_and_verdicts_goes_on_without_a_part_of_its_shards(
    digits, tmp_path, command, arguments, made, set_name, harm
):
    verdicts, out = tmp_path / "given.jsonl", tmp_path / "RUN"
    picture = next(one.id for one in open_dataset("voc", digits).records("trainval") if one.labels["six"] == 1)
    append_verdicts(verdicts, [Verdict(picture, "six", "boxes", ((1.0, 1.0, 30.0, 30.0),))])
    line = arguments(digits, out, "--verdicts", verdicts, "--boxes", digits / "Annotations")
    assert command(*line).status == 0
    whole = made(out, *MADE)
    harm(sorted(out.glob(f"shards/{set_name}/*.safetensors"))[0])
    again = command(*line)
    assert again.status == 0, again.err
    assert made(out, *MADE) == whole


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [("SIGKILL", 1), ("SIGINT", 2)])
def test_a_run_interrupted_at_random_moments_ends_with_the_same_bytes(tmp_path, fast, made, name, seed):
    write_digits(tmp_path / "data", seed=3, n_train=64, n_test=32)
    script = str(Path(__file__).with_name("interrupted_run.py"))
    arguments = ["run", "--data", "voc", "--root", str(tmp_path / "data"), "--quiet", *fast]
    done = subprocess.run(
        [sys.executable, script, name, TIMES, str(seed), str(tmp_path), *arguments],
        check=False, capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    sys.stdout.write(done.stdout)  # the moments, if the test fails
    assert done.returncode == 0, done.stdout + done.stderr
    assert made(tmp_path / "interrupted") == made(tmp_path / "undisturbed")
    assert not list((tmp_path / "interrupted").rglob("*.partial"))


def test_constants_chosen_before_an_interruption_are_not_chosen_again(run_copy, finished, command, made, monkeypatch):
    from lapsvm.pipelines.stages import train

    def interrupted(*_):
        raise KeyboardInterrupt

    fit = train.fit_requests
    monkeypatch.setattr(train, "fit_requests", interrupted)
    assert command("train", "--out", run_copy, "--redo").status == 130
    for path in (run_copy / "models").iterdir():
        path.unlink()
    monkeypatch.setattr(train, "fit_requests", fit)
    monkeypatch.setattr(train, "choose_constants", interrupted)
    assert command("train", "--out", run_copy).status == 0
    assert made(run_copy, "models/*", "history.csv") == made(finished, "models/*", "history.csv")
    assert not (run_copy / "choices.json").exists()


def picture_folder(root, classes, count=8):
    """Write pictures of plain rectangles, one folder per class; the class decides the grey."""
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for index in range(count):
            picture = Image.effect_noise((64, 48), 60).convert("RGB")
            if name != "background":
                picture.paste((250, 250 * number, 0), (10 + index, 8, 40 + index, 36))
            picture.save(root / name / f"{name}{index}.png")


def test_a_class_in_every_picture_is_refused_or_left_out(tmp_path, command, refused):
    picture_folder(tmp_path / "pictures", ["red", "background"], 6)
    rows = ["image,label"] + [
        f"{p.relative_to(tmp_path / 'pictures')},all" for p in (tmp_path / "pictures").rglob("*.png")
    ]
    rows += [f"{p.relative_to(tmp_path / 'pictures')},red" for p in (tmp_path / "pictures" / "red").iterdir()]
    (tmp_path / "pictures" / "labels.csv").write_text("\n".join(rows) + "\n")
    line = ["run", "--data", "csv", "--root", tmp_path / "pictures", "--out", tmp_path / "RUN", *QUICK]
    assert "class 'all' has no negative picture" in refused(*line, "--classes", "all")
    assert not (tmp_path / "RUN").exists()
    result = command(*line, "--quiet", "--json")
    assert result.status == 0
    assert "class all is left out: it has no negative picture in the training set" in result.err
    for verb in (line, ["detect", "--out", tmp_path / "RUN"]):
        told = json.loads(command(*verb, "--quiet", "--json").out)["figures"]["skipped"]
        assert told == {"all": "has no negative picture in the training set"}


@pytest.mark.parametrize("more", [(), ("--set=train.candidates=4",)], ids=["plain", "candidates"])
def test_training_interrupted_at_a_pass_continues_there(run_copy, finished, command, made, monkeypatch, more):
    from lapsvm.bags import Bags

    assert command("train", "--out", run_copy, "--redo", *more).status == 0
    expected, answered, best = made(run_copy, "models/*", "history.csv"), [0, 0], Bags.best
    counts = json.loads((run_copy / "timings.json").read_text())["train"]
    assert counts["passes"] > 0
    assert (counts["candidate_calls"] > 0) == bool(more)

    def interrupted(self, weights, **options):
        answered[0] += self.n_windows > self.n_bags  # not those that only look for scenery, a mean per picture
        if answered[0] > answered[1]:
            raise KeyboardInterrupt
        return best(self, weights, **options)

    monkeypatch.setattr(Bags, "best", interrupted)
    assert command("train", "--out", run_copy, "--redo", *more).status == 130
    for path in (run_copy / "models").iterdir():
        path.unlink()
    for _ in range(100):
        answered[:] = 0, 12  # every run gets twelve passes further
        status = command("train", "--out", run_copy).status
        if status == 0:
            break
        assert status == 130
    assert status == 0
    assert made(run_copy, "models/*", "history.csv") == expected
    assert not (run_copy / "training").exists()


def test_classes_trained_together_are_together_again(run_copy, command, made, monkeypatch):
    from lapsvm.detection import Detector

    expected, saved, save = made(run_copy, "models/*", "history.csv"), [], Detector.save

    def interrupted(self, path):
        saved.append(self.class_name)
        if len(saved) > 1:
            raise KeyboardInterrupt
        save(self, path)

    monkeypatch.setattr(Detector, "save", interrupted)
    assert command("train", "--out", run_copy, "--redo").status == 130
    (run_copy / "models" / f"{saved[1]}.safetensors").unlink()
    saved.clear()
    monkeypatch.setattr(Detector, "save", lambda self, path: (saved.append(self.class_name), save(self, path)))
    assert command("train", "--out", run_copy).status == 0
    assert len(saved) == len(list((run_copy / "models").iterdir())) > 1
    assert made(run_copy, "models/*", "history.csv") == expected


@pytest.mark.slow
def test_training_killed_by_the_system_continues_to_the_same_bytes(run_copy, finished, tmp_path, made):
    for path in (run_copy / "models").iterdir():
        path.unlink()
    line = [sys.executable, "-m", "lapsvm.pipelines", "train", "--out", str(run_copy)]
    killed, size = 0, 0
    for _ in range(3):
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
        while process.poll() is None and _answers(run_copy) <= size:
            time.sleep(0.002)
        if process.poll() is None:
            process.kill()
        killed += process.wait() == -signal.SIGKILL
        size = _answers(run_copy)
    subprocess.run(line, check=True, capture_output=True, cwd=tmp_path)
    assert killed > 0
    assert made(run_copy, "models/*", "history.csv") == made(finished, "models/*", "history.csv")
    assert not (run_copy / "training").exists()


def _answers(run):
    """Return how many bytes of answers a training has kept."""
    try:
        return sum(path.stat().st_size for path in (run / "training").glob("*.answers"))
    except FileNotFoundError:  # removed in between, for training is done
        return 0
