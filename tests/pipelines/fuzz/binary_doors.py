"""Doors of binary files: features of other programs, shards, models, pictures and networks."""

import io
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from lapsvm.pipelines.products.fold_models import FoldModels
from lapsvm.pipelines.products.held_out import HeldOut

from lapsvm.catalog import check_image, open_dataset, read_picture
from lapsvm.detection import Detector
from lapsvm.features import (
    PictureWindows,
    assemble_shard,
    load_projection,
    open_external,
    open_shards,
    read_header,
    read_shard,
    write_shard,
)
from lapsvm.features.extractors.networks import check_self_contained
from lapsvm.features.projection import Projection, save_projection
from lapsvm.models import RankSVM, estimator_files
from lapsvm.pictures.masks import read_mask
from lapsvm.pictures.reading import seen_header

from ...features.conftest import _write_network
from ...pictures.deep_files import write_png, write_tiff
from .binaries import (
    mat_file,
    mat_files,
    npy,
    npy_files,
    npz_files,
    onnx_files,
    png_files,
    safetensors_files,
    tiff_tags,
)
from .doors import Door, read_data
from .trees import damaged, json_files, json_text, often_whole, tables

BOXES = np.array([[0.0, 0, 10, 20], [2, 3, 5, 7]])
FEATURES = np.arange(6, dtype=np.float32).reshape(2, 3)


def written(write, name):
    """Return the bytes of the file that a function writes under a name."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def read_windows(name=""):
    """Return a function that reads windows and features of other programs."""

    def read(folder):
        source = open_external(folder / name)
        for key in source.keys:
            found = source.read(key)
            assert np.isfinite(found.boxes).all()
            assert found.content_hash

    return read


WINDOWS = {"a": {"boxes": BOXES.tolist(), "features": FEATURES.tolist(), "gt": [0, 1]}}
PROPOSALS = [{"image_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}, {"image_id": "b", "bbox": [0, 0, 9, 9]}]
ARRAYS = {
    "boxes": BOXES,
    "features": FEATURES.astype(np.float16),
    "gt": np.array([True, False]),
    "objectness": BOXES[:, 0] / 9,
}
CELLS = np.empty((1, 2), dtype=object)
CELLS[0, 0], CELLS[0, 1] = BOXES, BOXES + 1
VARIABLES = {"images": np.array([["one", "two"]], dtype=object), "boxes": CELLS}
FLAT = {"boxes": BOXES, "features": FEATURES, "offsets": np.array([0, 1, 2]), "gt": np.array([True, False])}
EXTERNAL = {
    "npy": Door(
        {f"{name}.npy": npy(array) for name, array in FLAT.items()} | {"ids.txt": b"one\ntwo\n"},
        {f"{name}.npy": often_whole(npy_files(array)) for name, array in FLAT.items()}
        | {"ids.txt": tables([["one"], ["two"]], (" ",))},
        read_windows(),
    ),
    "npz": Door(
        {"a.npz": written(lambda path: np.savez_compressed(path, **ARRAYS), "a.npz")},
        {"a.npz": npz_files(ARRAYS)},
        read_windows(),
    ),
    "mat": Door({"a.mat": mat_file(VARIABLES)}, {"a.mat": mat_files(VARIABLES)}, read_windows("a.mat")),
    "windows-json": Door({"a.json": json_text(WINDOWS)}, {"a.json": json_files(WINDOWS)}, read_windows("a.json")),
    "proposals-json": Door({"a.json": json_text(PROPOSALS)}, {"a.json": json_files(PROPOSALS)}, read_windows("a.json")),
}


# ---- shards and models ----
def shard():
    """Return the bytes of a shard."""
    picture = PictureWindows("a", BOXES.astype(np.float32), FEATURES, "0" * 32, (30, 30))
    return written(
        lambda path: write_shard(path, assemble_shard([picture], {"windows": {}}, "float32")), "0.safetensors"
    )


def read_one_shard(folder):
    """Read a shard, whole, mapped, and as one of a folder."""
    header = read_header(folder / "00000.safetensors")
    assert len(header.image_ids) == len(header.pixel_hashes)
    found = read_shard(folder / "00000.safetensors")
    read_shard(folder / "00000.safetensors", mapped=True, verify=False)
    assert found.offsets[-1] == len(found.boxes) == len(found.features)
    assert np.isfinite(found.boxes).all()
    open_shards(folder)


def stored(name, content, load, is_shard=False):
    """Return the door of a safetensors file of ours."""
    return Door({name: content}, {name: often_whole(safetensors_files(content, is_shard))}, load)


def read_detector(folder):
    """Read a detector and score with it."""
    detector = Detector.load(folder / "a.safetensors")
    assert np.isfinite(detector.coef).all()


def read_estimator(folder):
    """Read an estimator and score with it."""
    assert np.isfinite(estimator_files.load(folder / "a.safetensors").decision_function(BOXES)).all()


def read_held_out(folder):
    """Read held-out scores and use them."""
    found = HeldOut.load(folder / "a.safetensors")
    assert found.detections().boxes.shape == (len(found.ids), 4)
    assert found.image_ap is None or 0 <= found.image_ap <= 1


def read_folds(folder):
    """Read models without folds."""
    found = FoldModels.load(folder / "a.safetensors")
    assert np.isfinite(found.coef).all()
    assert found.fold.min(initial=0) >= 0


def read_projection(folder):
    """Read components and project with them."""
    found = load_projection(folder / "a.safetensors")
    assert all(np.isfinite(one).all() for one in found.components)


def _held_out():
    ones, boxes = np.array([1.0, 0.5]), np.array(BOXES)
    return HeldOut(("a", "b"), np.array([1, -1], np.int8), np.array([1, 2]), ones, boxes, ones, "0" * 32)


def _folds():
    return FoldModels(np.array([1, 2, 0]), np.ones((3, 2)), "0" * 32)


STORED = {
    "shard": stored("00000.safetensors", shard(), read_one_shard, is_shard=True),
    "detector": stored(
        "a.safetensors",
        written(Detector("cat", [1.0, 2.0], 0.5, [1.0, 3.0], {"result": {"C": 1.0}}).save, "a.safetensors"),
        read_detector,
    ),
    "estimator": stored(
        "a.safetensors",
        written(lambda path: estimator_files.save(RankSVM().fit(BOXES, [1, -1]), path), "a.safetensors"),
        read_estimator,
    ),
    "held-out": stored("a.safetensors", written(_held_out().save, "a.safetensors"), read_held_out),
    "folds": stored("a.safetensors", written(_folds().save, "a.safetensors"), read_folds),
    "projection": stored(
        "a.safetensors",
        written(
            lambda path: save_projection(
                path, Projection((np.eye(3, 2, dtype=np.float32),), (1.0,), (False,)), {"a": 1}
            ),
            "a.safetensors",
        ),
        read_projection,
    ),
}


# ---- pictures ----
SAMPLES = np.arange(4 * 5 * 3, dtype=np.uint16).reshape(4, 5, 3) * 60


def picture(kind):
    """Return a small picture in a format of Pillow."""
    from PIL import Image

    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray((SAMPLES // 15).astype(np.uint8)).save(buffer, kind, exif=exif)
    return buffer.getvalue()


def read_picture_file(folder):
    """Check and read a picture; what the header says is what is seen."""
    for path in sorted(folder.iterdir()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of damaged tables
            found = read_picture(path).pixels
            check_image(path)
            assert seen_header(path)[0] == found.shape[1::-1]
            assert found.dtype == np.uint8
            assert found.shape[2:] == (3,)


@st.composite
def tiffs(draw):
    """Draw TIFF files with other tags."""
    samples = SAMPLES if draw(st.booleans()) else SAMPLES[..., 0]
    tags, order = draw(tiff_tags()), draw(st.sampled_from("<>"))
    return written(lambda path: write_tiff(path, samples, tags, order), "a.tif")


DEEP_PNG = written(lambda path: write_png(path, SAMPLES, 12), "a.png")
TIFF = written(lambda path: write_tiff(path, SAMPLES, {281: [4095] * 3, 274: [6]}), "a.tif")
PICTURES = {
    "png": Door({"a.png": DEEP_PNG}, {"a.png": often_whole(png_files(DEEP_PNG))}, read_picture_file),
    "tiff": Door({"a.tif": TIFF}, {"a.tif": often_whole(tiffs())}, read_picture_file),
    **{
        kind.lower(): Door(
            {"a": picture(kind)},
            {"a": damaged(picture(kind)) | damaged(picture(kind)).flatmap(damaged)},
            read_picture_file,
        )
        for kind in ("JPEG", "WEBP", "PNG")
        if kind != "PNG"
    },
}


# ---- masks of defects ----
MASK = written(lambda path: write_png(path, SAMPLES[..., 0], 12), "a.png")
MASKED = {f"train/good/{name}.png": DEEP_PNG for name in "ab"} | {f"test/good/{name}.png": DEEP_PNG for name in "cd"}
MASKED |= {f"test/crack/{name}.png": DEEP_PNG for name in "ef"}
MASKS = {f"ground_truth/crack/{name}_mask.png": MASK for name in "ef"}


def read_masks(folder):
    """Open the layout with masks, and read the boxes and pixels of evaluation."""
    read_data("mvtec")(folder)
    dataset = open_dataset("mvtec", folder)
    for path in (dataset.masks("test") or {}).values():
        assert path is None or read_mask(path).dtype == bool


MASKED_DOOR = {"mvtec": Door(MASKED | MASKS, {name: often_whole(png_files(MASK)) for name in MASKS}, read_masks)}


# ---- networks ----
@cache
def network():
    """Return a tiny network."""
    return written(_write_network, "a.onnx")


def read_network(folder):
    """Open a network as an extractor, and measure windows of a picture."""
    from lapsvm.features import open_extractor

    check_self_contained("a", (folder / "a.onnx").read_bytes())
    extractor = open_extractor(f"onnx:{folder / 'a.onnx'}")
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[10:30, 20:70] = 200
    found = extractor(pixels, np.array([[0.0, 0, 96, 64], [10, 10, 60, 60]]))
    assert found.shape == (2, extractor.dim)


def read_weights(folder):
    """Load the weights of a network of torch, and run it."""
    import torch

    from lapsvm.features.extractors.torch_weights import loaded_module

    (path,) = folder.iterdir()
    module = loaded_module(torch, torch.nn.Linear(3, 2), str(path), path.read_bytes()).float()  # as every network runs
    assert module(torch.zeros(1, 3)).shape == (1, 2)


def weights_doors():
    """Return the doors of torch's weights, as torch saves them and as safetensors; none where it is not installed."""
    try:
        import torch
        from safetensors.torch import save_file
    except ImportError:
        return {}
    state = torch.nn.Linear(3, 2).state_dict()
    zipped = written(lambda path: torch.save(state, path), "a.pth")
    plain = written(lambda path: save_file(state, path, {"lapsvm": "{}"}), "a.safetensors")
    return {
        "weights": Door({"a.pth": zipped}, {"a.pth": damaged(zipped) | damaged(zipped).flatmap(damaged)}, read_weights),
        "weights-safetensors": stored("a.safetensors", plain, read_weights),
    }


def network_doors():
    """Return the doors of networks; none where onnx or ONNX Runtime is not installed."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        return {}
    return {"onnx": Door({"a.onnx": network()}, {"a.onnx": onnx_files(network())}, read_network)}
