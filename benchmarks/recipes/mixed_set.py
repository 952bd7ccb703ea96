"""Make a VOC folder of one class with negatives from another VOC folder: `python benchmarks/recipes/mixed_set.py ...`.

    python benchmarks/recipes/mixed_set.py RACCOON raccoon VOC OUT --without bird,cat,cow,dog,horse,sheep
    python benchmarks/recipes/mixed_set.py RACCOON raccoon VOC OUT --every 3

OUT has all pictures of RACCOON as positives of raccoon, and as negatives pictures of VOC, set by set (trainval, test):
those without the classes of `--without`, those that show a class of `--only`, of these the first of every `--every`.
Pictures and annotations are links to the originals.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lapsvm.pipelines.cli.study import study_command

SETS = ("trainval", "test")


@study_command
def main(
    positives: Path, name: str, negatives: Path, out: Path, without: str = "", only: str = "", every: int = 1
) -> None:
    """Make the folder; --without and --only name classes, separated by commas."""
    named = {"without": without.split(",") if without else [], "only": only.split(",") if only else []}
    mix(positives, name, negatives, out, **named, every=every)


def mix(
    positives: Path, name: str, negatives: Path, out: Path, *,
    without: Sequence[str] = (), only: Sequence[str] = (), every: int = 1,
) -> None:  # fmt: skip
    """Write the lists and the links."""
    for set_name in SETS:
        own = ids_of(positives, set_name)
        hidden, shown = showing(negatives, set_name, without), showing(negatives, set_name, only)
        others = [one for one in ids_of(negatives, set_name) if one not in hidden and (one in shown or not only)]
        others = others[::every]
        link(positives, own, out)
        link(negatives, others, out)
        write_lists(out, set_name, {name: dict.fromkeys(own, 1) | dict.fromkeys(others, -1)})
        print(f"{out.name}, {set_name}: {len(own)} positives, {len(others)} negatives")


def ids_of(root: Path, list_name: str, flags: str = "") -> list[str]:
    """Return the ids of a list, or those with one of `flags` in a class list."""
    file = root / "ImageSets" / "Main" / f"{list_name}.txt"
    rows = [line.split() for line in file.read_text().splitlines()]
    return [row[0] for row in rows if not flags or row[1] in flags.split()]


def showing(root: Path, set_name: str, classes: Sequence[str]) -> set[str]:
    """Return the ids of the pictures that show one of some classes, difficult objects among them."""
    return {image_id for name in classes for image_id in ids_of(root, f"{name}_{set_name}", "1 0")}


def link(root: Path, ids: Sequence[str], out: Path) -> None:
    """Link pictures and annotations of a VOC folder into another."""
    for folder, suffix in (("JPEGImages", ".jpg"), ("Annotations", ".xml")):
        (out / folder).mkdir(parents=True, exist_ok=True)
        for image_id in ids:
            target = out / folder / f"{image_id}{suffix}"
            if not target.exists():
                target.symlink_to((root / folder / target.name).resolve())


def write_lists(out: Path, set_name: str, flags: Mapping[str, Mapping[str, int]]) -> None:
    """Write the list of a set, and that of each class: `flags` is class -> id -> flag, with the same ids for each."""
    lists = out / "ImageSets" / "Main"
    lists.mkdir(parents=True, exist_ok=True)
    for name, of_class in flags.items():
        lines = [f"{image_id} {flag:2d}\n" for image_id, flag in of_class.items()]
        (lists / f"{name}_{set_name}.txt").write_text("".join(lines))
        (lists / f"{set_name}.txt").write_text("".join(f"{image_id}\n" for image_id in of_class))


if __name__ == "__main__":
    main()
