"""Masks: what is of an object, and the regions that it forms, against a slow twin."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from lapsvm.errors import ImageError, MissingError
from lapsvm.pictures.masks import (
    BETWEEN_LEVELS,
    BY_TRANSPARENCY,
    MANY_LEVELS,
    mask_labels,
    mask_regions,
    read_mask,
    region_boxes,
    understood_mask,
)
from lapsvm.pictures.reading import read_image

from ..twins.regions import flood

MASKS = arrays.arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9)))


@given(MASKS)
def test_regions_are_those_of_the_twin_with_boxes_around_them(mask):
    labels, boxes = mask_regions(mask)
    found = [set(zip(*np.nonzero(labels == number + 1), strict=True)) for number in range(len(boxes))]
    assert sorted(map(sorted, found)) == sorted(map(sorted, flood(zip(*np.nonzero(mask), strict=True))))
    for region, box in zip(found, boxes.tolist(), strict=True):
        rows, columns = zip(*region, strict=True)
        assert box == [min(columns), min(rows), max(columns) + 1, max(rows) + 1]
    assert labels.shape == mask.shape
    assert labels.max(initial=0) == len(boxes)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16"])
def test_what_is_not_black_belongs_to_the_object(tmp_path, mode):
    drawn = np.zeros((4, 6), np.uint8)
    drawn[1, 2:5] = 255
    drawn[3, 0] = 1 if mode not in ("1", "P") else 255
    picture = Image.fromarray(drawn.astype(np.uint16)) if mode == "I;16" else Image.fromarray(drawn).convert(mode)
    picture.save(tmp_path / "mask.png")
    assert (read_mask(tmp_path / "mask.png") == (drawn > 0)).all()


def test_colours_of_a_palette_count_and_not_their_numbers(tmp_path):
    drawn = np.array([[0, 1], [1, 1]], np.uint8)
    picture = Image.fromarray(drawn)
    picture.putpalette([255, 255, 255, 0, 0, 0])
    picture.save(tmp_path / "mask.png")
    assert read_mask(tmp_path / "mask.png").tolist() == [[True, False], [False, False]]


def test_a_transparent_pixel_is_what_its_colour_says(tmp_path):
    drawn = np.zeros((2, 2, 4), np.uint8)
    drawn[0, 0] = (255, 255, 255, 255)
    drawn[0, 1] = (0, 0, 0, 255)
    Image.fromarray(drawn).save(tmp_path / "mask.png")
    assert read_mask(tmp_path / "mask.png").tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize("colour", [(255, 255, 255), (0, 0, 0), (200, 30, 30)])
@pytest.mark.parametrize("behind", ["same", "black"])
def test_transparency_marks_where_the_colour_does_not(tmp_path, colour, behind):
    marked = np.zeros((5, 7), bool)
    marked[1:3, 2:6] = True
    drawn = np.zeros((5, 7, 4), np.uint8)
    drawn[marked] = (*colour, 255)
    if behind == "same":
        drawn[..., :3] = colour
    Image.fromarray(drawn).save(tmp_path / "mask.png")
    assert (read_mask(tmp_path / "mask.png") == marked).all()
    if behind == "same":
        assert understood_mask(tmp_path / "mask.png").note == BY_TRANSPARENCY


def drawn_masks():
    """Return masks of kinds that people draw: a block, a thin line, an ellipse, dots, and nearly everything."""
    masks = {name: np.zeros((90, 120), np.uint8) for name in ("block", "line", "ellipse", "dots")}
    masks["block"][13:34, 21:48] = 255
    cv2.line(masks["line"], (5, 7), (110, 70), 255, 2)
    cv2.ellipse(masks["ellipse"], (60, 45), (30, 12), 30, 0, 360, 255, -1)
    for x, y in ((11, 13), (50, 61), (90, 33)):
        masks["dots"][y : y + 4, x : x + 5] = 255
    return masks | {"inverted": 255 - masks["ellipse"]}


@pytest.mark.parametrize("name", drawn_masks())
@pytest.mark.parametrize("quality", [50, 70, 85, 95, 98])
@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_a_mask_that_went_through_jpeg_is_what_it_was(tmp_path, name, quality, suffix):
    mask = drawn_masks()[name]
    Image.fromarray(mask).save(tmp_path / "mask.jpg", quality=quality)
    if suffix == ".png":
        Image.open(tmp_path / "mask.jpg").save(tmp_path / "mask.png")
    found = understood_mask(tmp_path / f"mask{suffix}")
    assert (found.pixels == (mask > 0)).mean() > 0.999
    assert len(mask_regions(found.pixels)[1]) == len(mask_regions(mask > 0)[1])
    assert found.note == BETWEEN_LEVELS


@pytest.mark.parametrize(
    "levels", [(1, 2, 3), (1, 255), (1, 2, 20, 255), (50, 100, 150, 200, 250), tuple(range(1, 30))]
)
def test_numbers_of_objects_all_count(tmp_path, levels):
    drawn = np.zeros((40, 90), np.uint8)
    for at, level in enumerate(levels):
        drawn[5:35, 3 * at : 3 * at + 2] = level
    Image.fromarray(drawn).save(tmp_path / "mask.png")
    assert (read_mask(tmp_path / "mask.png") == (drawn > 0)).all()


@pytest.mark.parametrize("level", [0, 1, 128, 255])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "CMYK"])
def test_a_mask_of_one_level_is_all_or_nothing(tmp_path, level, mode):
    path = tmp_path / ("mask.tif" if mode == "CMYK" else "mask.png")
    Image.fromarray(np.full((6, 9), level, np.uint8)).convert(mode).save(path)
    assert (read_mask(path) == (level > 0)).all()


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 6), st.integers(1, 6))))
def test_whatever_the_levels_a_mask_marks_by_a_threshold(tmp_path_factory, levels):
    path = tmp_path_factory.mktemp("mask") / "mask.png"
    Image.fromarray(levels).save(path)
    marked = read_mask(path)
    assert levels[marked].astype(int).min(initial=256) > levels[~marked].astype(int).max(initial=-1)


def test_the_brighter_of_two_levels_counts_and_a_photograph_is_named(tmp_path):
    drawn = np.full((20, 30), 1, np.uint8)
    drawn[4:9, 6:12] = 2
    Image.fromarray(drawn).save(tmp_path / "mask.png")
    assert (read_mask(tmp_path / "mask.png") == (drawn == 2)).all()
    Image.fromarray(np.arange(3600, dtype=np.uint16).reshape(60, 60).astype(np.uint8)).save(tmp_path / "photo.png")
    assert understood_mask(tmp_path / "photo.png").note == MANY_LEVELS


@given(MASKS)
def test_regions_are_counted_without_their_boxes(mask):
    labels, boxes = mask_regions(mask)
    count, same = mask_labels(mask)
    assert count == len(boxes)
    assert (labels == same).all()
    assert (region_boxes(mask, len(boxes)) == boxes).all()
    assert len(boxes) == 0 or region_boxes(mask, len(boxes) - 1) is None


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_a_mask_is_turned_as_its_picture_is(tmp_path, orientation, suffix):
    stored = np.zeros((4, 6), np.uint8)
    stored[0, 1:5] = stored[3, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    tags = {"tiffinfo": {0x0112: orientation}} if suffix == ".tif" else {"exif": exif}
    Image.fromarray(stored).save(tmp_path / f"mask{suffix}", **tags)
    assert (read_mask(tmp_path / f"mask{suffix}") == (read_image(tmp_path / f"mask{suffix}")[..., 0] > 0)).all()


def test_black_of_four_inks_is_black(tmp_path):
    drawn = np.zeros((4, 6, 3), np.uint8)
    drawn[1, 2:5] = 255
    Image.fromarray(drawn).convert("CMYK").save(tmp_path / "mask.tif")
    assert (read_mask(tmp_path / "mask.tif") == (drawn[..., 0] > 0)).all()


def test_files_that_are_no_masks_are_named(tmp_path):
    (tmp_path / "mask.png").write_text("no picture")
    with pytest.raises(ImageError, match=r"mask\.png does not open"):
        read_mask(tmp_path / "mask.png")
    with pytest.raises(MissingError, match=r"absent\.png"):
        read_mask(tmp_path / "absent.png")
