"""The sets of pictures on which recipes are developed, made from a folder of data.

DATA holds the folders voc2007_vehicles_cat, raccoon, kangaroo, magnetic_tiles and bccd in VOC layout. Mixed sets and
draws are VOC folders of links under OUT; digits, drawn defects and drawn kinds are generated there. Sets of one group
count as one set in means.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import drawn_defects
import drawn_kinds
import numpy as np
from mixed_set import SETS, ids_of, link, mix, write_lists

VOC, VOC_CLASSES = "voc2007_vehicles_cat", ("bus", "car", "cat", "train", "person")
ANIMALS = ("bird", "cat", "cow", "dog", "horse", "sheep")
NEGATIVES = {
    "vehicles": {"without": ANIMALS},
    "all": {"every": 3},
    "cats_people": {"only": ("cat", "person"), "every": 2},
}
"""End of a mixed set's name -> its negatives among the pictures of VOC, see `mixed_set.mix`."""
MIXED = {"raccoon": ("vehicles", "all", "cats_people"), "kangaroo": ("vehicles", "all")}
DRAWN_SETS = {"drawn": drawn_defects.write, "kinds": drawn_kinds.write}
DRAWS, DRAWN, LEAST, EVERY_TEST = 5, 150, 10, 3


class DevelopmentSet(NamedTuple):
    """A set of pictures; `group` is the name under which it counts in means."""

    name: str
    group: str
    root: Path
    classes: tuple[str, ...] = ()
    reader: str = "voc"
    seed: int = 0


def development_sets(
    data: Path, out: Path, extra: Mapping[str, Path], names: Sequence[str] = ()
) -> dict[str, DevelopmentSet]:
    """Return some sets by name, or all, after making the folders that are missing; `extra` are further VOC folders."""
    sets: dict[str, Callable[[], DevelopmentSet]] = {
        "voc": lambda: DevelopmentSet("voc", "voc", data / VOC, VOC_CLASSES),
        **{f"voc150_{seed}": partial(_draw_of_voc, data / VOC, out, seed) for seed in range(DRAWS)},
        **{f"{animal}_{kind}": partial(_mixed, data, out, animal, kind) for animal in MIXED for kind in MIXED[animal]},
        "tiles": lambda: DevelopmentSet("tiles", "tiles", data / "magnetic_tiles"),
        "platelets": lambda: DevelopmentSet(
            "platelets", "platelets", _made(out / "platelets", partial(_label_platelets, data / "bccd"))
        ),
        **{name: partial(_generated, out, name) for name in DRAWN_SETS},
        **{f"digits_{seed}": partial(_digits, out, seed) for seed in range(DRAWS)},
        **{name: partial(DevelopmentSet, name, name, root) for name, root in extra.items()},
    }
    unknown = [name for name in names if name not in sets]
    if unknown:
        raise SystemExit(f"option --sets must name some of {', '.join(sets)}, got {unknown[0]!r}.")
    return {name: sets[name]() for name in names or sets}


def _draw_of_voc(voc: Path, out: Path, seed: int) -> DevelopmentSet:
    root = _made(out / f"voc150_{seed}", partial(_draw, voc, seed))
    return DevelopmentSet(root.name, "voc150", root, VOC_CLASSES)


def _mixed(data: Path, out: Path, animal: str, kind: str) -> DevelopmentSet:
    make = partial(mix, data / animal, animal, data / VOC, **NEGATIVES[kind])
    return DevelopmentSet(f"{animal}_{kind}", animal, _made(out / f"{animal}_{kind}", make))


def _generated(out: Path, name: str) -> DevelopmentSet:
    return DevelopmentSet(name, name, _made(out / name, DRAWN_SETS[name]))


def _digits(out: Path, seed: int) -> DevelopmentSet:
    return DevelopmentSet(f"digits_{seed}", "digits", out / f"digits_{seed}", (), "digits", seed)


def _made(root: Path, make) -> Path:
    """Return a folder, made by `make(root)` unless it is there."""
    if not (root / "ImageSets").is_dir():
        make(root)
    return root


def _draw(voc: Path, seed: int, out: Path) -> None:
    """Draw pictures of trainval, at least `LEAST` of each class, and take every third of test."""
    order = np.random.default_rng(seed).permutation(sorted(ids_of(voc, "trainval"))).tolist()
    drawn: list[str] = []
    for name in VOC_CLASSES:
        positive = set(ids_of(voc, f"{name}_trainval", "1"))
        missing = LEAST - len(positive.intersection(drawn))
        drawn += [one for one in order if one in positive and one not in drawn][: max(0, missing)]
    drawn += [one for one in order if one not in drawn][: DRAWN - len(drawn)]
    for set_name, ids in (("trainval", sorted(drawn)), ("test", ids_of(voc, "test")[::EVERY_TEST])):
        link(voc, ids, out)
        flags = {name: _flags(voc, f"{name}_{set_name}") for name in VOC_CLASSES}
        write_lists(out, set_name, {name: {one: of_class[one] for one in ids} for name, of_class in flags.items()})


def _flags(root: Path, list_name: str) -> dict[str, int]:
    return {one: flag for flag in (1, -1, 0) for one in ids_of(root, list_name, str(flag))}


def _label_platelets(bccd: Path, out: Path) -> None:
    """Label the pictures of blood cells by their annotations; the other cells are in nearly all pictures."""
    for set_name in SETS:
        ids = ids_of(bccd, set_name)
        link(bccd, ids, out)
        texts = {one: (bccd / "Annotations" / f"{one}.xml").read_text() for one in ids}
        flags = {one: 1 if re.search("<name>Platelets</name>", text) else -1 for one, text in texts.items()}
        write_lists(out, set_name, {"Platelets": flags})
