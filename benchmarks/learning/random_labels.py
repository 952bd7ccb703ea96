"""What held-out figures say of random labels: `python benchmarks/learning/random_labels.py ROOT OUT [RUN]`.

ROOT is a VOC folder, whose trainval and test pictures get random labels of five classes, each a seed, with the share
POSITIVE of positives; "noise" makes pictures of noise instead. Detectors are trained on them in OUT for every row of
VARIANTS, with the windows and features of the recipe, or those of a finished RUN on the same pictures. Nothing can be
learned from such labels, so held-out figures and test figures must be those of chance.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
from lapsvm.datasets.voc_writer import VocPicture, write_lists, write_pictures
from lapsvm.pipelines.commands.verbs import main as lapsvm

from lapsvm.detection import Detector
from lapsvm.evaluation import image_average_precision, read_results
from lapsvm.voc_files import VocObject

POSITIVE, CLASSES, SEED = 0.4, [f"random{number}" for number in range(5)], 3
NOISE = {"trainval": 60, "test": 200}
VARIANTS = {
    "best": [],
    "best, without what stands out": ["--objectness", "none"],
    "best, no refinement": ["--refine", "0"],
    "best, C = 60 in refinement": ["--refine-C", "60"],
    "C of .1, 1, 10, 100 by image AP, no refinement": ["--C", ".1,1,10,100", "--refine", "0"],
}


def main(root: str, out: str, shards: str = "") -> None:
    """Run every variant and print a row for it."""
    data, rng = Path(out) / "DATA", np.random.default_rng(SEED)
    ids = _noise(data, rng) if root == "noise" else _linked(Path(root), data)
    for set_name, names in ids.items():
        labels = {
            name: [VocObject(c, (1, 1, 9, 9), False) for c in CLASSES if rng.random() < POSITIVE] for name in names
        }
        write_lists(data, set_name, labels, CLASSES)
    print("| variant | held-out image AP | chance | test image AP | chance | p >= .7 | right of these | agreement |")
    print("|---|---|---|---|---|---|---|---|")
    base = ["run", "--data", "voc", "--root", str(data), "--quiet", "--jobs", "2"]
    first = shards
    for number, (name, options) in enumerate(VARIANTS.items()):
        run = Path(out) / f"RUN{number}"
        if not (run / "evaluation.json").is_file():
            _call([*base, "--out", str(run), *(["--shards-from", first] if first else []), *options])
        first = first or str(run)
        print(f"| {name} | {' | '.join(_figures(run, data))} |", flush=True)


def _figures(run: Path, data: Path) -> list[str]:
    """Return the cells of a row."""
    held_out = json.loads((run / "evaluation.json").read_text())["sets"]["trainval"]["held_out"]
    agreement = [_agreement(run, name) for name in CLASSES]
    aps, chances, sure = [], [], []
    for name in CLASSES:
        listed = (line.split() for line in (data / "ImageSets" / "Main" / f"{name}_test.txt").read_text().splitlines())
        y = {image_id: int(flag) for image_id, flag in listed}
        found = read_results(run / "detections" / "test", "test")[name]
        best = dict.fromkeys(y, -np.inf)
        for image_id, score in zip(found.image_ids, found.scores.tolist(), strict=True):
            best[image_id] = max(best[image_id], score)
        flags, scores = np.array(list(y.values())), np.array(list(best.values()))
        aps.append(image_average_precision(scores, flags))
        chances.append((flags > 0).mean())
        p = Detector.load(run / "models" / f"{name}.safetensors").calibration.probability(scores)
        sure += (flags[p >= 0.7] > 0).tolist()
    right = f"{np.mean(sure):.2f}" if sure else "-"
    mean = held_out["mean"]
    return [f"{mean['image_ap']:.3f}", f"{mean['chance']:.3f}", f"{np.mean(aps):.3f}", f"{np.mean(chances):.3f}",
            str(len(sure)), right, f"{np.mean(agreement):.2f}"]  # fmt: skip


def _agreement(run: Path, name: str) -> float:
    from lapsvm.pipelines.results.held_out import HeldOut

    found = HeldOut.load(run / "heldout" / f"{name}.safetensors")
    return float(found.agreement[found.y > 0].mean())


def _linked(root: Path, data: Path) -> dict[str, list[str]]:
    """Link the pictures of a VOC folder, and return the ids of its sets."""
    for folder in ("JPEGImages", "Annotations"):
        (data / folder).mkdir(parents=True, exist_ok=True)
        for path in (root / folder).iterdir():
            if not (data / folder / path.name).exists():
                (data / folder / path.name).symlink_to(path.resolve())
    shutil.rmtree(data / "ImageSets", ignore_errors=True)
    (data / "ImageSets" / "Main").mkdir(parents=True)
    lists = root / "ImageSets" / "Main"
    return {name: (lists / f"{name}.txt").read_text().split() for name in ("trainval", "test")}


def _noise(data: Path, rng: np.random.Generator) -> dict[str, list[str]]:
    """Write pictures of noise at two scales."""
    shutil.rmtree(data, ignore_errors=True)
    return {
        set_name: list(write_pictures(data, [_picture(f"{set_name}{number:03d}", rng) for number in range(count)]))
        for set_name, count in NOISE.items()
    }


def _picture(image_id: str, rng: np.random.Generator) -> VocPicture:
    coarse = rng.integers(0, 256, (6, 8, 3)).repeat(40, axis=0).repeat(40, axis=1)
    pixels = np.clip(coarse / 2 + rng.integers(0, 128, (240, 320, 3)), 0, 255).astype(np.uint8)
    return VocPicture(image_id, pixels, [])


def _call(arguments: list[str]) -> None:
    try:
        lapsvm(arguments)
    except SystemExit as exit_:
        if exit_.code:
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
