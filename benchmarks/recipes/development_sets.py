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

from lapsvm.errors import OptionError

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
    voc = data / VOC
    mixed = [(animal, kind) for animal, kinds in MIXED.items() for kind in kinds]
    sets: list[tuple[DevelopmentSet, Callable[[Path], None] | None]] = [
        (DevelopmentSet("voc", "voc", voc, VOC_CLASSES), None),
        *((DevelopmentSet(f"voc150_{seed}", "voc150", out / f"voc150_{seed}", VOC_CLASSES), partial(_draw, voc, seed))
          for seed in range(DRAWS)),
        *((DevelopmentSet(f"{animal}_{kind}", animal, out / f"{animal}_{kind}"),
           partial(mix, data / animal, animal, voc, **NEGATIVES[kind])) for animal, kind in mixed),
        (DevelopmentSet("tiles", "tiles", data / "magnetic_tiles"), None),
        (DevelopmentSet("platelets", "platelets", out / "platelets"), partial(_label_platelets, data / "bccd")),
        *((DevelopmentSet(name, name, out / name), write) for name, write in DRAWN_SETS.items()),
        *((DevelopmentSet(f"digits_{seed}", "digits", out / f"digits_{seed}", (), "digits", seed), None)
          for seed in range(DRAWS)),
        *((DevelopmentSet(name, name, root), None) for name, root in extra.items()),
    ]  # fmt: skip
    known = {one.name: (one, make) for one, make in sets}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise OptionError(f"option --sets must name some of {', '.join(known)}, got {unknown[0]!r}.")
    for one, make in (known[name] for name in names or known):
        if make is not None and not (one.root / "ImageSets").is_dir():
            make(one.root)
    return {name: known[name][0] for name in names or known}


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
