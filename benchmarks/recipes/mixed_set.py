"""A VOC folder of one class whose negatives come from another VOC folder: `python benchmarks/recipes/mixed_set.py ...`.

    python benchmarks/recipes/mixed_set.py RACCOON raccoon VOC bird,cat,cow,dog,horse,sheep OUT

makes OUT with every picture of RACCOON as a positive of raccoon, and as negatives those pictures of VOC that show
none of the named classes, set by set (trainval, test). Pictures and annotations are links to the originals.
"""

import sys
from pathlib import Path

SETS = ("trainval", "test")


def main(positives: str, name: str, negatives: str, without: str, out: str) -> None:
    """Write the lists and the links."""
    mixed = Path(out)
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (mixed / folder).mkdir(parents=True, exist_ok=True)
    for one in SETS:
        flags = dict.fromkeys(_ids(Path(positives), one), 1)
        _link(Path(positives), list(flags), mixed)
        shown = set().union(*(_ids(Path(negatives), f"{other}_{one}", "1 0") for other in without.split(",")))
        others = [image_id for image_id in _ids(Path(negatives), one) if image_id not in shown]
        _link(Path(negatives), others, mixed)
        flags |= dict.fromkeys(others, -1)
        lists = mixed / "ImageSets" / "Main"
        (lists / f"{one}.txt").write_text("".join(f"{image_id}\n" for image_id in flags))
        (lists / f"{name}_{one}.txt").write_text("".join(f"{image_id} {flag:2d}\n" for image_id, flag in flags.items()))
        print(f"{one}: {len(flags) - len(others)} positives, {len(others)} negatives")


def _ids(root: Path, list_name: str, flags: str = "") -> list[str]:
    """Return the ids of a list; of a class's list those with one of these flags."""
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
