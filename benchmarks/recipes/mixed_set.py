"""Make a VOC folder of one class with negatives from another VOC folder: `python benchmarks/recipes/mixed_set.py ...`.

    python benchmarks/recipes/mixed_set.py RACCOON raccoon VOC bird,cat,cow,dog,horse,sheep OUT

OUT has all pictures of RACCOON as positives of raccoon, and as negatives the pictures of VOC without the named classes,
set by set (trainval, test). Pictures and annotations are links to the originals.
"""

import sys
from pathlib import Path

SETS = ("trainval", "test")


def main(positives: str, name: str, negatives: str, without: str, out: str) -> None:
    """Write the lists and the links."""
    mixed = Path(out)
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (mixed / folder).mkdir(parents=True, exist_ok=True)
    for set_name in SETS:
        flags = dict.fromkeys(_ids(Path(positives), set_name), 1)
        _link(Path(positives), list(flags), mixed)
        shown = set().union(*(_ids(Path(negatives), f"{other}_{set_name}", "1 0") for other in without.split(",")))
        others = [image_id for image_id in _ids(Path(negatives), set_name) if image_id not in shown]
        _link(Path(negatives), others, mixed)
        flags |= dict.fromkeys(others, -1)
        lists = mixed / "ImageSets" / "Main"
        (lists / f"{set_name}.txt").write_text("".join(f"{image_id}\n" for image_id in flags))
        (lists / f"{name}_{set_name}.txt").write_text(
            "".join(f"{image_id} {flag:2d}\n" for image_id, flag in flags.items())
        )
        print(f"{set_name}: {len(flags) - len(others)} positives, {len(others)} negatives")


def _ids(root: Path, list_name: str, flags: str = "") -> list[str]:
    """Return the ids of a list, or those with one of `flags` in a class list."""
    file = root / "ImageSets" / "Main" / f"{list_name}.txt"
    rows = [line.split() for line in file.read_text().splitlines()]
    return [row[0] for row in rows if not flags or row[1] in flags.split()]


def _link(root: Path, ids: list[str], mixed: Path) -> None:
    """Link pictures and annotations."""
    for image_id in ids:
        for folder, suffix in (("JPEGImages", ".jpg"), ("Annotations", ".xml")):
            link = mixed / folder / f"{image_id}{suffix}"
            if not link.exists():
                link.symlink_to((root / folder / link.name).resolve())


if __name__ == "__main__":
    main(*sys.argv[1:])
