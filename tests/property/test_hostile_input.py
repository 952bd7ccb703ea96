"""Files that somebody else wrote, changed at random: they are read, or refused by a named error, and nothing else.

Seeded. ``LAPSVM_FUZZ_ROUNDS`` says how many changes of each file are tried, by default so many as take seconds.
"""

import json
import os
import shutil
import warnings
from contextlib import suppress
from importlib import import_module

import numpy as np
import pytest
from lapsvm.datasets.folder import open_folder
from lapsvm.datasets.labels_csv import open_csv
from lapsvm.datasets.voc import open_voc
from lapsvm.pipelines.review.mended_files import read_mended
from lapsvm.pipelines.settings.checks import check_settings
from lapsvm.pipelines.settings.settings import Settings
from scipy.io import savemat

from lapsvm.annotations.voc import read_objects
from lapsvm.catalog import check_image, read_picture
from lapsvm.detection import Detector
from lapsvm.errors import LapsvmError, ModelFileError
from lapsvm.evaluation import Detections, ErrorKind, class_table, read_result_file, write_results
from lapsvm.features import PictureWindows, assemble_shard, open_external, open_shards, read_shard, write_shard
from lapsvm.model_files import read_model, write_model
from lapsvm.models import RankSVM, estimator_files
from lapsvm.report import ClassSummary, Contents, RunSummary, SetSummary, render_page

from ..pictures.deep_files import write_png, write_tiff

ROUNDS = int(os.environ.get("LAPSVM_FUZZ_ROUNDS", "120"))
BOXES = np.array([[0.0, 0, 10, 20], [2, 3, 5, 7]])
XML = """<annotation><size><width>9</width></size><object><name>cat</name><difficult>0</difficult><bndbox><xmin>1</xmin>
<ymin>2</ymin><xmax>3</xmax><ymax>4.5</ymax></bndbox></object></annotation>"""
CSV = 'image,label,set\na.jpg,cat,trainval\n"b, c.jpg",dog,trainval\na.jpg,dog,trainval\nd.jpg,,test\n'
PIECES = [
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b'"', b"'", b"<", b"&", b"]", b"[", b"{", b"}", b",", b"-1",
    b"nan", b"inf", b"1e999", b"9" * 30, b"9" * 5000, b"../", b"/", b"%00", b"\xed\xa0\x80", b"null", b"true", b"=",
    b"0x" + b"f" * 40, b"{" * 2000, b"[" * 2000, b"\x7f\xff\xff\xff\xff\xff\xff\xff", b"\x80" + bytes(7),
    "\u2028\u202e\u0000".encode(),
]  # fmt: skip


def changed(rng, content):
    """Return content with one to four changes: bits, bytes, pieces put in, parts left out, doubled, or swapped."""
    found = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(0, len(found) + 1))
        length = int(rng.integers(1, 1 + min(40, len(found) + 1)))
        kind = rng.integers(6)
        if kind == 0 and place < len(found):
            found[place] ^= 1 << int(rng.integers(8))
        elif kind == 1 and place < len(found):
            found[place] = int(rng.integers(256))
        elif kind == 2:
            found[place:place] = PIECES[rng.integers(len(PIECES))]
        elif kind == 3:
            found[place : place + length] = PIECES[rng.integers(len(PIECES))]
        elif kind == 4:
            del found[place : place + length]
        else:
            found[place:place] = found[place : place + length]
    return bytes(found) if rng.random() > 0.05 else bytes(found)[: int(rng.integers(0, len(found) + 1))]


def read_windows(path):
    source = open_external(path)
    for key in source.keys:
        source.read(key).content_hash  # noqa: B018 - what is read is used


def arrays(folder):
    np.save(folder / "boxes.npy", BOXES)
    np.save(folder / "features.npy", BOXES.astype(np.float32))
    np.save(folder / "offsets.npy", np.array([0, 1, 2]))
    (folder / "ids.txt").write_text("one\ntwo\n")


def npz(folder):
    np.savez_compressed(folder / "a.npz", boxes=BOXES, features=BOXES.astype(np.float16), gt=np.array([True, False]))


def mat(folder, compressed):
    cells = np.empty((1, 2), dtype=object)
    cells[0, 0], cells[0, 1] = BOXES, BOXES + 1
    names = np.array([["one", "two"]], dtype=object)
    savemat(folder / "a.mat", {"images": names, "boxes": cells}, do_compression=compressed)


def voc(folder):
    (folder / "ImageSets/Main").mkdir(parents=True)
    (folder / "JPEGImages").mkdir()
    (folder / "ImageSets/Main/trainval.txt").write_text("a\nb\n")
    (folder / "ImageSets/Main/cat_trainval.txt").write_text("a  1\nb -1\n")


def shards(folder):
    picture = PictureWindows("a", BOXES.astype(np.float32), BOXES.astype(np.float32), "0" * 32, (30, 30))
    (folder / "shards").mkdir()
    write_shard(folder / "shards" / "00000.safetensors", assemble_shard([picture], {"windows": {}}, "float32"))


def read_shards(folder):
    for path in sorted((folder / "shards").iterdir()):
        read_shard(path)
    open_shards(folder / "shards")


def detector(folder):
    Detector("cat", [1.0, 2.0], 0.5, [1.0, 3.0], {"result": {"C": 1.0}}).save(folder / "a.safetensors")


def estimator(folder):
    model = RankSVM().fit(BOXES, [1, -1])
    estimator_files.save(model, folder / "a.safetensors")


def yolo(folder):
    (folder / "labels" / "train").mkdir(parents=True)
    (folder / "labels" / "train" / "a.txt").write_text("0 .5 .5 1 1\n1.0 0.25 0.25 0.5 0.5\n")
    (folder / "data.yaml").write_text("train: images/train\nnames: &a\n  0: dent\n  '1': \"a b\"\nnc: 2\n")


def deep_pictures(folder):
    samples = np.arange(4 * 5 * 3, dtype=np.uint16).reshape(4, 5, 3) * 60
    write_png(folder / "a.png", samples, 12)
    write_tiff(folder / "a.tif", samples, {281: [4095] * 3, 274: [6]})
    write_tiff(folder / "b.tif", samples[..., 0], {262: [0]}, ">")


def read_pictures(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of damaged tables
        for path in sorted(folder.iterdir()):
            check_image(path)
            read_picture(path)


def text(name, content):
    return lambda folder: (folder / name).write_bytes(content.encode())


# name -> (makes a folder, the files to change, reads the folder)
CASES = {
    "annotation": (text("a.xml", XML), ["a.xml"], lambda folder: read_objects(folder / "a.xml")),
    "labels": (text("labels.csv", CSV), ["labels.csv"], open_csv),
    "voc": (
        voc,
        ["ImageSets/Main/trainval.txt", "ImageSets/Main/cat_trainval.txt"],
        lambda folder: open_voc(folder).records("trainval"),
    ),
    "yolo": (yolo, ["data.yaml", "labels/train/a.txt"], read_mended),
    "deep png": (deep_pictures, ["a.png"], read_pictures),
    "deep tiff": (deep_pictures, ["a.tif", "b.tif"], read_pictures),
    "recipe": (
        text("a.toml", Settings().toml(versions={"a": "1"})),
        ["a.toml"],
        lambda folder: check_settings(Settings.read(folder / "a.toml")),
    ),
    "results": (
        lambda folder: write_results(folder / "a.txt", Detections(("a", "b c"), [1.5, 0.25], BOXES)),
        ["a.txt"],
        lambda folder: read_result_file(folder / "a.txt"),
    ),
    "npy": (
        arrays,
        ["boxes.npy", "features.npy", "offsets.npy", "ids.txt"],
        read_windows,
    ),
    "npz": (npz, ["a.npz"], read_windows),
    "mat": (lambda folder: mat(folder, False), ["a.mat"], lambda folder: read_windows(folder / "a.mat")),
    "packed mat": (lambda folder: mat(folder, True), ["a.mat"], lambda folder: read_windows(folder / "a.mat")),
    "json": (
        text("a.json", json.dumps({"a": {"boxes": BOXES.tolist(), "features": BOXES.tolist(), "gt": [0, 1]}})),
        ["a.json"],
        lambda folder: read_windows(folder / "a.json"),
    ),
    "proposals": (
        text(
            "a.json",
            json.dumps([{"image_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}, {"image_id": "b", "bbox": [0] * 4}]),
        ),
        ["a.json"],
        lambda folder: read_windows(folder / "a.json"),
    ),
    "shard": (shards, ["shards/00000.safetensors"], read_shards),
    "detector": (detector, ["a.safetensors"], lambda folder: Detector.load(folder / "a.safetensors")),
    "estimator": (estimator, ["a.safetensors"], lambda folder: estimator_files.load(folder / "a.safetensors")),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_changed_at_random_is_read_or_refused(tmp_path, case):
    make, names, read = CASES[case]
    make(tmp_path)
    read(tmp_path)
    rng = np.random.default_rng(list(case.encode()))
    whole = {name: (tmp_path / name).read_bytes() for name in names}
    for _ in range(ROUNDS):
        name = names[rng.integers(len(names))]
        (tmp_path / name).write_bytes(changed(rng, whole[name]))
        with suppress(LapsvmError):
            read(tmp_path)
        (tmp_path / name).write_bytes(whole[name])


VALUES = [
    None,
    True,
    -1,
    2**70,
    1.5,
    float("1e308"),
    "",
    "x",
    "\ud800",
    [],
    [[]],
    {},
    {"tensor": "coef"},
    {"a": {"b": []}},
]


def altered(rng, value):
    """Return plain JSON with one value in it replaced, taken out, or put beside it."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = list(value)[rng.integers(len(value))]
        if rng.random() < 0.15:
            return {name: own for name, own in value.items() if name != key}
        return value | {key: altered(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = int(rng.integers(len(value)))
        return [*value[:place], altered(rng, value[place]), *value[place + 1 :]]
    return VALUES[rng.integers(len(VALUES))]


NUMBERS_OF = {
    "detector": lambda model: model.coef,
    "estimator": lambda model: model.decision_function(BOXES),
}


@pytest.mark.parametrize("case", ["detector", "estimator"])
def test_a_model_whose_description_says_something_else_is_read_or_refused(tmp_path, case):
    """The digest fits: somebody wrote it so."""
    make, names, read = CASES[case]
    make(tmp_path)
    path, rng = tmp_path / names[0], np.random.default_rng(1)
    module = import_module(
        {"detector": "lapsvm.detection.detector", "estimator": "lapsvm.models.estimator_files"}[case]
    )
    description, tensors = read_model(path, module.FORMAT, module.VERSION)
    for _ in range(ROUNDS):
        own = altered(rng, description) if rng.random() < 0.8 else description
        if not isinstance(own, dict):
            continue
        numbers = dict(tensors)
        if rng.random() < 0.4:
            name = list(numbers)[rng.integers(len(numbers))]
            shapes = [(), (0,), (3,), (1, 2), (2,)]
            numbers[name] = np.ones(shapes[rng.integers(5)], dtype=["f4", "i8", "?"][rng.integers(3)])
        write_model(path, own | {"format": module.FORMAT, "version": module.VERSION}, numbers, "x")
        with suppress(LapsvmError):
            model = read(tmp_path)
            assert np.isfinite(NUMBERS_OF[case](model)).all()


ROWS = [
    {"ap_11point": 0.5, "ap_area": 0.25, "image_ap": None, "corloc": 0.5, "corloc_30": 1.0, "pointing": None, "npos": 3}
] * 2
INTERVALS = {"classes": {"cat": {"image_ap": {"low": 0.1, "high": 0.3}}}, "mean": {"image_ap": None}}
ENTRY = class_table(dict(zip(("cat", "dog"), ROWS, strict=True))) | {
    "errors": {"cat": {kind: {"count": 1, "top": 1, "ap_gain": 0.25} for kind in ("correct", *ErrorKind)}},
    "windows": class_table({"cat": {"abo": 0.5, "recall_50": 1.0}, "dog": {"abo": None, "recall_50": None}}),
    "intervals": INTERVALS | {"level": 0.95, "draws": 2000},
}
FIGURES = ENTRY | {"held_out": ENTRY | {"classes": {"cat": {"corloc": 0.5, "image_ap": 0.5, "chance": None}}}}


def test_figures_that_somebody_changed_are_shown_or_refused():
    """Of evaluation.json, whose content nobody signs."""
    figures = json.loads(json.dumps(FIGURES))
    del figures["held_out"]["errors"]
    summary = RunSummary(
        "x", "voc", ("hog",), "ap", SetSummary("trainval", 3, True), SetSummary("test", 3, True), "run"
    )
    classes = tuple(ClassSummary(name) for name in ("cat", "dog"))
    assert "Kinds of errors" in render_page(Contents(summary, classes, figures={"test": figures, "trainval": figures}))
    rng, refused = np.random.default_rng(3), 0
    for _ in range(ROUNDS):
        own = altered(rng, figures)
        try:
            render_page(Contents(summary, classes, figures={"test": own, "trainval": own}))
        except LapsvmError:
            refused += 1
    assert refused > ROUNDS / 4


def test_names_of_any_bytes_are_read_or_refused(tmp_path):
    rng = np.random.default_rng(2)
    for number in range(min(ROUNDS, 100)):
        root = tmp_path / str(number)
        for _ in range(3):
            name = bytes(rng.integers(1, 256, size=rng.integers(1, 12)).tolist()).replace(b"/", b"_")
            folder = os.path.join(os.fsencode(root), name if name not in (b".", b"..") else b"x")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, b"a" + name + b".png"), "wb"):
                pass
        with suppress(LapsvmError):
            data = open_folder(root)
            for record in data.records("trainval"):
                record.id.encode()
        shutil.rmtree(root)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E8M0", "BF16", "C64", "I64"])
def test_a_model_of_a_type_that_numpy_may_not_have_is_refused(tmp_path, dtype):
    sizes = {"F8_E4M3": 1, "F8_E8M0": 1, "BF16": 2}
    size = 2 * sizes.get(dtype, 8)
    entry = {"dtype": dtype, "shape": [2], "data_offsets": [0, size]}
    head = json.dumps({"__metadata__": {"lapsvm": "{}"}, "coef": entry}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(size))
    with pytest.raises(ModelFileError, match=r"a\.safetensors is"):
        Detector.load(tmp_path / "a.safetensors")
