"""Score smoothing and voting with other constants: `python benchmarks/pictures/smoothing.py RUN`.

RUN is a finished run; its other detection settings are kept. The table has the mean 11-point AP and CorLoc over the
classes on the training pictures, for every amount of smoothing (0 is none) and least overlap of windows that vote.
Boxes are for evaluation only.
"""

import sys
from dataclasses import replace

from voting import measured, scored_pictures

AMOUNTS, OVERLAPS = (0.0, 0.3, 0.5, 0.7, 1.0), (0.4, 0.45, 0.5)


def main(folder: str) -> None:
    """Print the table."""
    context, names, pictures = scored_pictures(folder)
    truth = context.data.dataset.ground_truth(context.settings.data.train_set)
    print("| smoothing | overlap | AP 11-point | CorLoc |\n|---|---|---|---|")
    for amount, overlap in ((amount, overlap) for overlap in OVERLAPS for amount in AMOUNTS):
        settings = replace(context.settings.detect, score_smoothing=amount, box_voting_iou=overlap)
        ap, located = measured(pictures, names, settings, truth)
        print(f"| {amount:g} | {overlap:g} | {ap:.3f} | {located:.3f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
