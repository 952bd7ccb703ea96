"""Pictures of one product with and without defects, in the layout of MVTec AD, with masks for evaluation only.

::

    ROOT/train/good/<picture>
    ROOT/test/good/<picture>
    ROOT/test/<defect>/<picture>
    ROOT/ground_truth/<defect>/<picture>_mask.png    or <picture>.png; .bmp, .tif and .jpg, too

A picture is positive for the defect of its folder. Folders with a word of no class, as good, hold none. The layout
trains on good pictures alone, which say nothing of defects: so half of the pictures of each folder of test join
training, and the other half is the test set. A layout whose train holds defects keeps its own split.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from lapsvm.catalog import ImageRecord, truth_by_class
from lapsvm.errors import ImageError, LabelsError, MissingError
from lapsvm.ground_truth import ObjectRow, Size, TruthByClass
from lapsvm.names.kinds import is_mask_name
from lapsvm.names.matching import NameIndex, composed, files_of_users

from .folder import class_pictures, folders_of_classes, is_no_class, subfolders
from .labelled import LabelledPictures, count_ignored, ignored_note, labelled_records
from .masks import MaskFiles, MaskSummary, mask_files, mask_sentence, summarised_mask
from .names import check_folder, check_set, choose_classes

TRAIN, TEST, MASKS = "train", "test", "ground_truth"
"""The folders of the layout."""
SPLIT = (
    f"half of the pictures of each folder of {TEST} join training, the same ones in every run, because {TRAIN} shows "
    "no defect; the other half is the test set"
)
OWN_SPLIT = f"{TRAIN} shows defects and is the training set, {TEST} the test set"
_SEED = b"split 0"

Row = tuple[str, Path, set[str]]  # relative path, file, classes


@dataclass(frozen=True)
class MaskedPictures(LabelledPictures):
    """Labelled pictures whose defects have masks.

    Attributes
    ----------
    mask_files : mapping of picture id to Path
    split_note : str
        How pictures were divided into sets, and how many of them have masks, as the end of a sentence.
    """

    mask_files: Mapping[str, Path] = field(default_factory=dict)
    split_note: str = ""
    _known: dict[Path, MaskSummary] = field(default_factory=dict, repr=False, compare=False)

    def masks(self, set_name: str) -> dict[str, Path | None] | None:
        """Return picture id -> file of its mask, None for a good picture. None if no mask of the set is known.

        Pictures with a defect and without a mask are not in it: where their defect lies is not known.

        Raises
        ------
        OptionError
            If there is no such set.
        """
        masks: dict[str, Path | None] = {}
        for record in self.records(set_name):
            if record.id in self.mask_files:
                masks[record.id] = self.mask_files[record.id]
            elif not _shown(record):
                masks[record.id] = None
        return masks if any(masks.values()) else None

    def ground_truth(self, set_name: str) -> TruthByClass | None:
        """Return class -> picture id -> boxes around the regions of its mask, for evaluation; None without masks.

        What a picture with a defect shows is not known where it has no mask, a black one, or one of too many regions.

        Raises
        ------
        OptionError
            If there is no such set.
        MissingError, ImageError
            If a mask cannot be read.
        """
        check_set(set_name, self.sets)
        masks = self.masks(set_name)
        if masks is None:
            return None
        rows: dict[str, list[ObjectRow]] = {}
        sizes: dict[str, Size] = {}
        for record in self.pictures[set_name]:
            path, rows[record.id] = masks.get(record.id), []
            if path is not None:
                mask = self._summary(path)
                sizes[record.id] = mask.size
                rows[record.id] = [(name, item, False) for name in _shown(record) for item in mask.corners]
        truth = truth_by_class(rows, self.classes, sizes=sizes)
        truth.unknown |= {record.id for record in self.pictures[set_name] if _shown(record) and not rows[record.id]}
        return truth

    def unusable_boxes(self, set_name: str) -> str:
        """Return how the masks of a set were understood, and which are improbable, as the end of a sentence, or ""."""
        masks = dict[str, MaskSummary]()
        for image_id, path in (self.masks(set_name) or {}).items():
            if path is not None:
                with suppress(ImageError, MissingError):  # `ground_truth` raises them
                    masks[image_id] = self._summary(path)
        return mask_sentence(masks)

    def _summary(self, path: Path) -> MaskSummary:
        """Return the summary of a mask; a second call does not read the file again."""
        if path not in self._known:
            self._known[path] = summarised_mask(path)
        return self._known[path]


def open_mvtec(
    root: str | Path, *, classes: Sequence[str] | None = None, train_set: str = "trainval", test_set: str = "test"
) -> MaskedPictures:
    """Open the folder of one product in the layout of MVTec AD.

    A picture's id is its path below `root` without the suffix, ``test/crack/001``, written as for
    `lapsvm.datasets.folder.open_folder`. Which pictures of a folder of test join training depends on their ids alone;
    where their number is odd, these are one more.

    Parameters
    ----------
    root : str or Path
        With the folders train and test.
    classes : sequence of str, optional
        Default: all folders of defects, by name. Pictures of other defects are negatives.
    train_set, test_set : str
        What the two sets are called.

    Returns
    -------
    MaskedPictures

    Raises
    ------
    MissingError
        If `root`, or its train or test, does not exist.
    LabelsError
        If there is no defect, a set has no picture, folders are nested deeper, pictures are outside of the folders of
        their kind, or two pictures of a folder differ only in their suffix.
    OptionError
        If a class does not exist.
    """
    root = check_folder("data folder", root)
    asked = frozenset(classes or ())
    _check_layout(root)
    kinds = {name: folders_of_classes(root / name) for name in (TRAIN, TEST)}
    rows = {name: list(class_pictures(root, folders, asked)) for name, folders in kinds.items()}
    names = {label for of_folder in rows.values() for _, _, positive in of_folder for label in positive}
    if not names:
        raise LabelsError(
            f"data folder {root} must hold pictures of a defect in {TEST}/<defect>, got good ones alone"
            f"{ignored_note(root)}."
        )
    is_split = not all(is_no_class(folder, ()) for folder in kinds[TRAIN])
    joining, rest = ([], rows[TEST]) if is_split else split_folders(rows[TEST])
    chosen = choose_classes(classes, names)
    sets = {train_set: [*rows[TRAIN], *joining], test_set: rest}
    pictures = {name: labelled_records(of_set, chosen) for name, of_set in sets.items()}
    for name, records in pictures.items():
        if not records:
            raise LabelsError(
                f"set {name!r} of {root} has no picture: {TEST} must hold two of a kind, or more{ignored_note(root)}."
            )
    masks = _mask_files(root, pictures.values())
    note = f"{OWN_SPLIT if is_split else SPLIT}; {_masks_note(pictures.values(), chosen, len(masks.taken))}"
    return MaskedPictures("mvtec", chosen, pictures, lambda: count_ignored(root) | masks.ignored, masks.taken, note)


def _masks_note(sets: Iterable[Sequence[ImageRecord]], classes: Sequence[str], n_masks: int) -> str:
    """Return how many pictures with a defect have a mask, or the name that one would have."""
    if not n_masks:
        return f"no picture with a defect has a mask, as {MASKS}/{classes[0]}/NAME_mask.png would be"
    defective = sum(bool(_shown(record)) for records in sets for record in records)
    return f"of {defective:,} pictures with a defect {n_masks:,} have a mask, for evaluation alone"


def split_folders(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows of pictures that join training and the others, each folder halved, both in their order.

    The order of hashes of the relative paths decides, so that a new picture moves few others.
    """
    folders: dict[str, list[Row]] = {}
    for row in rows:
        folders.setdefault(row[0].rpartition("/")[0], []).append(row)
    joining, rest = list[Row](), list[Row]()
    for of_folder in folders.values():
        first = {row[0] for row in sorted(of_folder, key=_place)[: (len(of_folder) + 1) // 2]}
        joining += [row for row in of_folder if row[0] in first]
        rest += [row for row in of_folder if row[0] not in first]
    return joining, rest


def _place(row: Row) -> bytes:
    """Return the sort key of a picture in its folder: a hash of the path, whatever the form of its accents."""
    name = composed(row[0]).encode("utf-8", "surrogateescape")
    return blake2b(name, key=_SEED).digest()


def _check_layout(root: Path) -> None:
    """Raise MissingError unless a folder holds train and test; if its folders do, it names one of them."""
    if _is_product(root):
        return
    products = [folder.name for folder in subfolders(root) if _is_product(folder)]
    advice = (
        f"; {len(products)} folders in it do, such as {products[0]}: name one by the parameter root" if products else ""
    )
    raise MissingError(f"data folder {root} must hold the folders {TRAIN} and {TEST}{advice}.")


def _is_product(folder: Path) -> bool:
    return all((folder / name).is_dir() for name in (TRAIN, TEST))


def _mask_files(root: Path, sets: Iterable[Sequence[ImageRecord]]) -> MaskFiles:
    """Return the masks of the pictures of test that show a defect, and what of the folder of masks is none."""
    names = dict[str, list[tuple[str, str]]]()
    for record in (record for records in sets for record in records):
        kind, stem = record.path.parent, record.path.stem
        if _shown(record) and kind.parent == root / TEST:
            names.setdefault(kind.name, []).extend((name, record.id) for name in (f"{stem}_mask", stem))
    of_kind = {kind: NameIndex(entries) for kind, entries in names.items()}
    return mask_files([(_owner(of_kind.get(path.parent.name), path), path) for path in _possible(root / MASKS)])


def _owner(index: NameIndex[str] | None, path: Path) -> str:
    """Return the picture that the name of a mask means, or ""."""
    ids = [] if index is None else index.meant(path.stem)
    return ids[0] if ids else ""


def _possible(folder: Path) -> list[Path]:
    """Return the files in folders of kinds that may be masks."""
    return [path for path in files_of_users(folder, "*/*") if is_mask_name(path.name)]


def _shown(record: ImageRecord) -> list[str]:
    """Return the classes that a picture shows."""
    return [name for name, label in record.labels.items() if label == 1]
