"""Learn from labels of whole slides which patches show the class, and draw it.

A folder has a file NAME.h5 for each slide, with `features` (n, d) and `coords` (n, 2) as CLAM and TRIDENT write them,
and labels.csv has the columns `slide` and `label` (1 or 0)::

    python examples/slides.py --slides FOLDER --labels labels.csv --out DIR

DIR gets scores.csv (the score of each slide by a model that did not see it, and where its best patch lies) and a
heat map NAME.png for each slide. It needs lapsvm with the extra h5.
"""

import argparse
import csv
from pathlib import Path

import cv2
import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from lapsvm.bags import Patches, bags_of_patches, read_patches
from lapsvm.models import LatentRankSVM


def draw(slide: Patches, scores: np.ndarray, path: Path) -> None:
    """Write a heat map, 8 pixels a patch: from dark to bright by the order of the scores, grey without a patch."""
    ranks = slide.heat_map(np.argsort(np.argsort(scores)) / max(len(scores) - 1, 1))
    colours = cv2.applyColorMap((255 * np.nan_to_num(ranks)).astype(np.uint8), cv2.COLORMAP_INFERNO)
    colours[np.isnan(ranks)] = 128
    cv2.imwrite(str(path), np.kron(colours, np.ones((8, 8, 1), np.uint8)))


def main() -> None:
    """Score each slide by a model of other folds, and print the AUC."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slides", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--C", type=float, default=10.0)
    options = parser.parse_args()
    with options.labels.open(newline="") as file:
        rows = list(csv.DictReader(file))
    labels = np.array([1 if float(row["label"]) > 0 else -1 for row in rows])
    slides = [read_patches(options.slides / f"{row['slide']}.h5") for row in rows]
    bags, found = bags_of_patches(slides), np.zeros(len(rows))
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "scores.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["slide", "label", "score", "x", "y"])
        for training, held_out in StratifiedKFold(options.folds, shuffle=True, random_state=0).split(labels, labels):
            model = LatentRankSVM("ap", C=options.C, top=1).fit(bags[training], labels[training])
            for i, scores in zip(held_out, model.instance_scores(bags[held_out]), strict=True):
                found[i] = scores.max()
                table.writerow([rows[i]["slide"], labels[i], found[i], *slides[i].coords[scores.argmax()]])
                draw(slides[i], scores, options.out / f"{rows[i]['slide']}.png")
    print(f"{len(rows)} slides, held-out AUC {roc_auc_score(labels, found):.3f}")


if __name__ == "__main__":
    main()
