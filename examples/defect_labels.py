"""Write labels.csv into the folder of a public data set of defects, from what the names of its files say.

    python examples/defect_labels.py NEU-DET        # IMAGES/crazing_1.jpg, or train/images/crazing/crazing_1.jpg
    python examples/defect_labels.py VisA/candle    # image_anno.csv, whose pictures may show several defects
    python examples/defect_labels.py KolektorSDD2   # train/10301.png, and its mask train/10301_GT.png

`lapsvm run --data csv --root FOLDER` reads the table. No box is read, and of KolektorSDD2's masks only whether they are
empty: NEU-DET's XML files count in evaluation alone, by `--boxes FOLDER`. The layouts of MVTec AD, and VisA's own
script that writes it, need no table (`--data mvtec`).
"""

import argparse
import csv
import re
from collections.abc import Iterator
from pathlib import Path

from lapsvm.catalog import read_image
from lapsvm.names.kinds import is_picture_name
from lapsvm.names.matching import files_of_users

TABLE = "labels.csv"
SETS = ("train", "validation", "val", "test")
WHOLE = "trainval"  # the set of pictures that lie in no folder of a set
MASK = "_GT.png"
NUMBERED = re.compile(r"(?P<kind>.+)_\d+")

Row = tuple[str, str, str]  # picture, label, set


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="NEU-DET, KolektorSDD2, or the folder of one product of VisA")
    folder = parser.parse_args().folder
    has_masks = next(folder.glob(f"*/*{MASK}"), None) is not None
    if (folder / "image_anno.csv").is_file():
        rows = list(annotated(folder))
    else:
        rows = list(masked(folder) if has_masks else numbered(folder))
    if not rows:
        parser.error(f"{folder} holds no picture.")
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("image", "label", "set"), *rows])
    print(
        f"{folder / TABLE}: {len({row[0] for row in rows}):,} pictures, {', '.join(sorted({row[1] for row in rows}))}"
    )


def numbered(folder: Path) -> Iterator[Row]:
    """Yield the rows of NEU-DET: the kind of a defect is a picture's name without its number."""
    for path in files_of_users(folder, "*"):
        if is_picture_name(path.name):
            name, match = path.relative_to(folder), NUMBERED.fullmatch(path.stem)
            if match is None:
                raise SystemExit(f"picture {path} must be called by its defect and a number, as crazing_1.jpg.")
            yield name.as_posix(), match["kind"], name.parts[0] if name.parts[0] in SETS else WHOLE


def masked(folder: Path) -> Iterator[Row]:
    """Yield the rows of KolektorSDD2: a picture with an empty mask is good."""
    for mask in files_of_users(folder, f"*{MASK}"):
        picture = mask.with_name(mask.name.replace(MASK, ".png"))
        label = "defect" if read_image(mask).any() else "good"
        yield picture.relative_to(folder).as_posix(), label, picture.parent.name


def annotated(folder: Path) -> Iterator[Row]:
    """Yield the rows of VisA: a row for each of a picture's defects, which commas separate; "normal" is none."""
    with (folder / "image_anno.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = row["image"].removeprefix(f"{folder.resolve().name}/")
            yield from ((name, label.strip(), WHOLE) for label in row["label"].split(","))


if __name__ == "__main__":
    main()
