"""Thumbnails and the boxes over them, and how the room is shared out."""

from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from lapsvm.detection import ScoreMap
from lapsvm.detection.map_colours import map_colours
from lapsvm.errors import ShapeError
from lapsvm.report import ClassSummary, Example
from lapsvm.report.pictures import class_galleries, thumbnail


def opened(source):
    return Image.open(BytesIO(b64decode(source.removeprefix("data:image/jpeg;base64,"))))


def figure_of(example):
    (galleries,) = class_galleries([ClassSummary("bus", best=(example,))], 10)
    return galleries.detections[0].figures[0]


@pytest.mark.parametrize(("height", "width"), [(333, 500), (500, 333), (900, 90), (40, 30), (1, 1), (2000, 3)])
def test_a_thumbnail_keeps_its_shape_and_never_grows(height, width):
    source, w, h = thumbnail(np.zeros((height, width, 3), dtype=np.uint8))
    scale = min(1.0, 320 / max(height, width))
    assert (w, h) == pytest.approx((max(1, width * scale), max(1, height * scale)), abs=0.5)
    assert opened(source).size == (w, h)


def test_a_thumbnail_shows_the_picture():
    pixels = np.zeros((100, 200, 3), dtype=np.uint8)
    pixels[:, 100:] = (250, 120, 10)
    shown = np.asarray(opened(thumbnail(pixels)[0])).astype(int)
    assert abs(shown[50, 150] - (250, 120, 10)).max() < 12
    assert shown[50, 50].max() < 12


def test_boxes_are_scaled_with_the_picture():
    pixels = np.zeros((480, 640, 3), dtype=np.uint8)
    figure = figure_of(Example("a", lambda: pixels, [64, 48, 320, 240], 1.0, [[0, 0, 640, 480]]))
    found, truth = figure.overlays
    assert (figure.width, figure.height) == (320, 240)
    assert (found.kind, found.x, found.y, found.width, found.height) == ("found", 32.0, 24.0, 128.0, 96.0)
    assert (truth.kind, truth.x, truth.y, truth.width, truth.height) == ("truth", 0.0, 0.0, 320.0, 240.0)


def test_a_caption_tells_score_and_overlap():
    pixels = np.zeros((20, 20, 3), dtype=np.uint8)
    figure = figure_of(Example("a", lambda: pixels, [0, 0, 10, 10], 1.5, [[0, 0, 10, 5], [0, 0, 1, 1]]))
    assert (figure.value, figure.overlap) == ("score 1.500", f"{5 / 10:.3f}")
    assert figure.alt == "Picture a: window for bus, score 1.500, IoU 0.500 with the nearest of 2 object(s)."


def test_a_caption_tells_the_probability_where_there_is_one():
    pixels = np.zeros((20, 20, 3), dtype=np.uint8)
    figure = figure_of(Example("a", lambda: pixels, [0, 0, 10, 10], 1.5, probability=0.75))
    assert figure.value == "probability 0.750"
    assert figure.alt == "Picture a: window for bus, probability 0.750."


def test_without_known_boxes_no_overlap_is_told():
    pixels = np.zeros((20, 20, 3), dtype=np.uint8)
    figure = figure_of(Example("a", lambda: pixels, [0, 0, 10, 10], 1.5))
    assert figure.overlap == ""
    assert figure.alt == "Picture a: window for bus, score 1.500."
    assert [overlay.kind for overlay in figure.overlays] == ["found"]


def test_misses_are_grouped_by_kind_and_those_without_room_are_named(full_contents):
    (galleries,) = class_galleries(full_contents.classes[2:3], 4)
    assert [g.title for g in galleries.misses] == [
        "Too large",
        "Too small (a part)",
        "Poor overlap (context)",
        "Wrong object",
    ]
    assert sum(gallery.total for gallery in galleries.misses) == len(full_contents.classes[2].misses)
    assert [len(gallery.figures) for gallery in galleries.misses] == [1, 1, 1, 1]
    shown_and_named = [id_ for g in galleries.misses for id_ in [*(f.id for f in g.figures), *g.unshown_ids]]
    assert sorted(shown_and_named) == sorted(example.id for example in full_contents.classes[2].misses)


def test_a_kind_of_miss_that_does_not_occur_is_told_and_takes_no_room(make_example):
    large = tuple(make_example(seed, 0, (-0.7, -0.7, 0.7, 0.7), 1.0) for seed in range(3))
    (galleries,) = class_galleries([ClassSummary("bus", misses=large)], 2)
    assert [gallery.total for gallery in galleries.misses] == [3, 0, 0, 0]
    assert [len(gallery.figures) for gallery in galleries.misses] == [2, 0, 0, 0]


def test_without_misses_no_kind_is_told():
    assert class_galleries([ClassSummary("bus")], 5)[0].misses == ()


def test_no_more_pictures_are_read_than_shown():
    read = []

    def pixels():
        read.append(1)
        return np.zeros((5, 5, 3), dtype=np.uint8)

    examples = tuple(Example(str(i), pixels, [0, 0, 2, 2], 1.0, []) for i in range(100))
    class_galleries([ClassSummary("a", best=examples, misses=examples), ClassSummary("b", best=examples)], 6)
    assert len(read) == 6


def test_a_window_of_another_shape_is_named():
    with pytest.raises(ShapeError, match=r"box must be one box of shape \(4,\), got shape \(2, 4\)"):
        figure_of(Example("a", lambda: np.zeros((5, 5, 3), dtype=np.uint8), np.zeros((2, 4)), 1.0))


# score maps


def heated(values, *, is_probability=True, size=(40, 80), **more):
    pixels = np.zeros((*size, 3), dtype=np.uint8)
    score_map = ScoreMap(np.asarray(values, np.float32), is_probability)
    return figure_of(Example("a", lambda: pixels, [0, 0, 10, 10], 1.5, score_map=lambda: score_map, **more))


def colour_of(value):
    return map_colours()[round(255 * value)].astype(int)


def test_a_map_is_coarse_and_in_the_colours_of_heat_maps():
    values = np.full((300, 600), 0.2)
    values[:, 300:] = 0.9
    figure = heated(values, size=(300, 600))
    layer = opened(figure.heat)
    assert (layer.size, figure.heat_unit) == ((80, 40), "probability")
    shown = np.asarray(layer).astype(int)
    assert abs(shown[20, 10] - colour_of(0.2)).max() < 12
    assert abs(shown[20, 70] - colour_of(0.9)).max() < 12


def test_scores_take_all_colours():
    values = np.repeat([[-7.0, 3.0]], 2, axis=0).repeat(40, axis=1)
    shown = np.asarray(opened(heated(values, is_probability=False).heat)).astype(int)
    assert abs(shown[0, 5] - colour_of(0)).max() < 12
    assert abs(shown[0, 75] - colour_of(1)).max() < 12
    assert heated(values, is_probability=False).heat_unit == "score"


@pytest.mark.parametrize("size", [(1, 1), (2000, 3), (3, 2000)])
def test_maps_of_any_shape_are_drawn(size):
    assert max(opened(heated(np.full(size, 0.5), size=size).heat).size) <= 80


def test_a_map_takes_a_few_kilobytes_at_most():
    noise = np.random.default_rng(0).random((400, 600))
    assert len(heated(noise, size=(400, 600)).heat) < 6000


def test_without_a_map_there_is_no_layer_and_no_unit():
    pixels = np.zeros((5, 5, 3), dtype=np.uint8)
    for score_map in (None, lambda: None):
        example = Example("a", lambda: pixels, [0, 0, 2, 2], 1.0, score_map=score_map)
        (galleries,) = class_galleries([ClassSummary("bus", best=(example,))], 10)
        assert galleries.heat_unit == galleries.detections[0].figures[0].heat == ""


def test_maps_are_made_of_shown_pictures_alone():
    made = []
    pixels = np.zeros((5, 5, 3), dtype=np.uint8)

    def score_map():
        made.append(1)
        return ScoreMap(np.zeros((5, 5), np.float32), True)

    examples = tuple(Example(str(i), lambda: pixels, [0, 0, 2, 2], 1.0, score_map=score_map) for i in range(100))
    (galleries,) = class_galleries([ClassSummary("a", best=examples, misses=examples)], 4)
    assert len(made) == len(list(galleries.figures())) == 4  # two galleries of two
    assert galleries.heat_unit == "probability"
