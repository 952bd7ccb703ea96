"""Thumbnails and the boxes over them, and how the room is shared out."""

from base64 import b64decode
from dataclasses import replace
from functools import partial
from io import BytesIO
from threading import Barrier

import numpy as np
import pytest
from PIL import Image

from lapsvm.detection import ScoreMap
from lapsvm.detection.map_colours import map_colours
from lapsvm.errors import ShapeError
from lapsvm.report import ClassSummary, Example
from lapsvm.report.details import detail_regions
from lapsvm.report.pictures import PAGE_PIXELS, class_galleries, longest_side, thumbnail


def opened(source):
    return Image.open(BytesIO(b64decode(source.removeprefix("data:image/jpeg;base64,"))))


def figure_of(example, form="false_positives"):
    """The figure of an example among mistakes, where pictures are shown whole, or of another form of the page."""
    (galleries,) = class_galleries([ClassSummary("bus", **{form: (example,)})], 10)
    (figure,) = galleries.figures()
    return figure


def misses_of(galleries):
    (part,) = (part for part in galleries.parts if part.counted)
    return part.galleries


@pytest.mark.parametrize(("height", "width"), [(333, 500), (500, 333), (900, 90), (40, 30), (1, 1), (2000, 3)])
def test_a_thumbnail_keeps_its_shape_and_never_grows(height, width):
    source, w, h = thumbnail(np.zeros((height, width, 3), dtype=np.uint8), 320)
    scale = min(1.0, 320 / max(height, width))
    assert (w, h) == pytest.approx((max(1, width * scale), max(1, height * scale)), abs=0.5)
    assert opened(source).size == (w, h)


def test_a_thumbnail_shows_the_picture():
    pixels = np.zeros((100, 200, 3), dtype=np.uint8)
    pixels[:, 100:] = (250, 120, 10)
    shown = np.asarray(opened(thumbnail(pixels, 320)[0])).astype(int)
    assert abs(shown[50, 150] - (250, 120, 10)).max() < 12
    assert shown[50, 50].max() < 12


def test_boxes_are_scaled_with_the_picture():
    pixels = np.zeros((1920, 2560, 3), dtype=np.uint8)
    whole = figure_of(Example("a", lambda: pixels, [256, 192, 1280, 960], 1.0, [[0, 0, 2560, 1920]])).whole
    found, truth = whole.overlays
    assert (whole.width, whole.height) == (1280, 960)
    assert (found.kind, found.x, found.y, found.width, found.height) == ("found", 128.0, 96.0, 512.0, 384.0)
    assert (truth.kind, truth.x, truth.y, truth.width, truth.height) == ("truth", 0.0, 0.0, 1280.0, 960.0)


def test_a_caption_tells_score_and_overlap():
    pixels = np.zeros((20, 20, 3), dtype=np.uint8)
    figure = figure_of(Example("a", lambda: pixels, [0, 0, 10, 10], 1.5, [[0, 0, 10, 5], [0, 0, 1, 1]]))
    assert (figure.value, figure.overlap) == ("score 1.500", f"{5 / 10:.3f}")
    assert figure.whole.alt == "Picture a: box for bus, score 1.500, IoU 0.500 with the nearest of 2 object(s)."


def test_a_caption_tells_the_probability_where_there_is_one():
    pixels = np.zeros((20, 20, 3), dtype=np.uint8)
    figure = figure_of(Example("a", lambda: pixels, [0, 0, 10, 10], 1.5, probability=0.75))
    assert figure.value == "probability 0.750"
    assert figure.whole.alt == "Picture a: box for bus, probability 0.750."


def test_without_known_boxes_no_overlap_is_told():
    pixels = np.zeros((20, 20, 3), dtype=np.uint8)
    figure = figure_of(Example("a", lambda: pixels, [0, 0, 10, 10], 1.5))
    assert figure.overlap == ""
    assert figure.whole.alt == "Picture a: box for bus, score 1.500."
    assert [overlay.kind for overlay in figure.whole.overlays] == ["found"]


def test_misses_are_grouped_by_kind_and_those_without_room_are_named(full_contents):
    (galleries,) = class_galleries(full_contents.classes[2:3], 4)
    assert [g.title for g in misses_of(galleries)] == [
        "Too large",
        "Too small (a part)",
        "Poor overlap (context)",
        "Wrong object",
    ]
    assert sum(gallery.total for gallery in misses_of(galleries)) == len(full_contents.classes[2].misses)
    assert [len(gallery.figures) for gallery in misses_of(galleries)] == [1, 1, 1, 1]
    shown_and_named = [id_ for g in misses_of(galleries) for id_ in [*(f.id for f in g.figures), *g.unshown_ids]]
    assert sorted(shown_and_named) == sorted(example.id for example in full_contents.classes[2].misses)


def test_a_kind_of_miss_that_does_not_occur_has_no_gallery(make_example):
    large = tuple(make_example(seed, 0, (-0.7, -0.7, 0.7, 0.7), 1.0) for seed in range(3))
    (galleries,) = class_galleries([ClassSummary("bus", misses=large)], 2)
    assert [(gallery.title, gallery.total) for gallery in misses_of(galleries)] == [("Too large", 3)]
    assert [len(gallery.figures) for gallery in misses_of(galleries)] == [1]


def test_without_misses_no_kind_is_told():
    (galleries,) = class_galleries([ClassSummary("bus")], 5)
    assert (galleries.parts, galleries.has_misses) == ((), False)


def test_no_more_pictures_are_read_than_shown():
    read = []

    def pixels():
        read.append(1)
        return np.zeros((5, 5, 3), dtype=np.uint8)

    examples = tuple(Example(str(i), pixels, [0, 0, 2, 2], 1.0, []) for i in range(100))
    class_galleries([ClassSummary("a", best=examples, misses=examples), ClassSummary("b", best=examples)], 16)
    assert len(read) == 2 + 6 + 2  # a quarter of 16 shared by two classes, and at most 6 of a half


def test_the_pictures_of_all_classes_are_drawn_at_the_same_time_and_are_those_of_one_thread():
    pictures = np.random.default_rng(0).integers(0, 255, (3, 30, 40, 3), dtype=np.uint8)

    def galleries(barrier, threads):
        def pixels(number):
            barrier.wait(60)
            return pictures[number]

        results = [
            ClassSummary(str(i), best=(Example(str(i), partial(pixels, i), [0, 0, 9, 9], 1.0),)) for i in range(3)
        ]
        return class_galleries(results, 10, threads)

    together, after_each_other = galleries(Barrier(3), 3), galleries(Barrier(1), 1)
    assert together == after_each_other
    assert [figure.number for of_class in together for figure in of_class.figures()] == [1, 2, 3]


def test_a_window_of_another_shape_is_named():
    with pytest.raises(ShapeError, match=r"box must be one box of shape \(4,\), got shape \(2, 4\)"):
        figure_of(Example("a", lambda: np.zeros((5, 5, 3), dtype=np.uint8), np.zeros((2, 4)), 1.0))


# score maps


def heated(values, *, is_probability=True, size=(40, 80), **more):
    pixels = np.zeros((*size, 3), dtype=np.uint8)
    score_map = ScoreMap(np.asarray(values, np.float32), is_probability)
    example = Example("a", lambda: pixels, [0, 0, 10, 10], 1.5, score_map=lambda: score_map, **more)
    (galleries,) = class_galleries([ClassSummary("bus", best=(example,))], 10)
    (figure,) = galleries.figures()
    return figure.whole.heat, galleries.heat_unit


def colour_of(value):
    return map_colours()[round(255 * value)].astype(int)


def test_a_map_is_coarse_and_in_the_colours_of_heat_maps():
    values = np.full((300, 600), 0.2)
    values[:, 300:] = 0.9
    heat, unit = heated(values, size=(300, 600))
    layer = opened(heat)
    assert (layer.size, unit) == ((80, 40), "probability")
    shown = np.asarray(layer).astype(int)
    assert abs(shown[20, 10] - colour_of(0.2)).max() < 12
    assert abs(shown[20, 70] - colour_of(0.9)).max() < 12


def test_scores_take_all_colours():
    values = np.repeat([[-7.0, 3.0]], 2, axis=0).repeat(40, axis=1)
    shown = np.asarray(opened(heated(values, is_probability=False)[0])).astype(int)
    assert abs(shown[0, 5] - colour_of(0)).max() < 12
    assert abs(shown[0, 75] - colour_of(1)).max() < 12
    assert heated(values, is_probability=False)[1] == "score"


@pytest.mark.parametrize("size", [(1, 1), (2000, 3), (3, 2000)])
def test_maps_of_any_shape_are_drawn(size):
    assert max(opened(heated(np.full(size, 0.5), size=size)[0]).size) <= 80


def test_a_map_takes_a_few_kilobytes_at_most():
    noise = np.random.default_rng(0).random((400, 600))
    assert len(heated(noise, size=(400, 600))[0]) < 6000


def test_without_a_map_there_is_no_layer_and_no_unit():
    pixels = np.zeros((5, 5, 3), dtype=np.uint8)
    for score_map in (None, lambda: None):
        example = Example("a", lambda: pixels, [0, 0, 2, 2], 1.0, score_map=score_map)
        (galleries,) = class_galleries([ClassSummary("bus", best=(example,))], 10)
        (figure,) = galleries.figures()
        assert galleries.heat_unit == figure.whole.heat == ""


def test_maps_are_made_of_shown_pictures_alone():
    made = []
    pixels = np.zeros((5, 5, 3), dtype=np.uint8)

    def score_map():
        made.append(1)
        return ScoreMap(np.zeros((5, 5), np.float32), True)

    examples = tuple(Example(str(i), lambda: pixels, [0, 0, 2, 2], 1.0, score_map=score_map) for i in range(100))
    (galleries,) = class_galleries([ClassSummary("a", best=examples, misses=examples, sample=examples)], 4)
    n_small = len(galleries.parts[1].galleries[0].figures)
    assert (len(made), len(list(galleries.figures())), n_small) == (3, 7, 4)
    assert galleries.first.heat_unit == galleries.mistakes.heat_unit == "probability"


def test_the_score_maps_of_a_class_have_one_scale():
    """Ten is the lightest colour in the picture that has it, and in the other nothing is."""
    pixels = np.zeros((40, 40, 3), dtype=np.uint8)
    maps = [ScoreMap(np.full((40, 40), value, np.float32), False) for value in (0.0, 5.0, 10.0)]
    examples = [
        Example(str(i), lambda: pixels, [0, 0, 9, 9], 1.0, score_map=lambda of=of: of) for i, of in enumerate(maps)
    ]
    (galleries,) = class_galleries([ClassSummary("a", best=tuple(examples[:2]), false_alarms=(examples[2],))], 9)
    shown = {one.id: np.asarray(opened(one.whole.heat)).astype(int)[0, 0] for one in galleries.figures()}
    for name, share in {"0": 0.0, "1": 0.5, "2": 1.0}.items():
        assert abs(shown[name] - colour_of(share)).max() < 12


def test_what_stands_out_has_the_colours_from_0_to_1():
    pixels = np.zeros((40, 40, 3), dtype=np.uint8)
    values = np.full((320, 320), 0.25)
    examples = [
        Example("a", lambda: pixels, [0, 0, 9, 9], 1.0, objectness_map=lambda: values),
        Example("b", lambda: pixels, [0, 0, 9, 9], 0.9, objectness_map=lambda: None),
    ]
    (galleries,) = class_galleries([ClassSummary("bus", best=tuple(examples))], 10)
    with_map, without = galleries.figures()
    layer = opened(with_map.whole.standing)
    assert (layer.size, without.whole.standing, galleries.has_objectness) == ((80, 80), "", True)
    assert abs(np.asarray(layer).astype(int)[40, 40] - colour_of(0.25)).max() < 12
    assert galleries.heat_unit == with_map.whole.heat == ""


# order, sizes and details


def test_the_surest_and_the_doubtful_boxes_come_first(make_example):
    one = make_example(0, 0, (0.7, 0.5, 0.7, 0.5), 1.0)
    best = replace(one, good=one.pixels, score_map=lambda: ScoreMap(np.zeros((3, 4), np.float32), True))
    every = ClassSummary(
        "bus", best=(best,), false_positives=(one,), misses=(one,), false_alarms=(one,), weak_positives=(one,),
        disagreements=(one,), sample=(one,), shown_on="on test", missed_on="on trainval",
    )  # fmt: skip
    (galleries,) = class_galleries([every], 20)
    assert [(part.title, part.where) for part in galleries.parts] == [
        ("Surest boxes", "on test"),
        ("Doubtful boxes", "on test"),
        ("Good picture, score map, defect", "on test"),
        ("More pictures, the most doubtful first", "on test"),
        ("Best boxes that miss the object", "on trainval"),
        ("Wrong boxes", "on test"),
        ("Models disagree", "on trainval"),
    ]
    assert len(galleries.first.parts) == 4
    assert galleries.first.parts + galleries.mistakes.parts == galleries.parts
    numbers = [figure.number for figure in galleries.figures()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_rows_at_the_top_have_six_boxes_of_each_class_enlarged(make_example):
    examples = tuple(make_example(seed, 0, (0, 0, 0, 0), 1.0) for seed in range(9))
    results = [ClassSummary(name, best=examples, weak_positives=examples, misses=examples) for name in "abcde"]
    for galleries in class_galleries(results, 180):
        assert [len(part.galleries[0].figures) for part in galleries.first.parts] == [6, 6]
        for figure in galleries.first.figures():
            (panel,) = figure.details
            found = panel.overlays[0]
            assert found.kind == "found"
            assert (
                0.5 * max(panel.width, panel.height) < max(found.width, found.height) < max(panel.width, panel.height)
            )


def test_the_map_of_what_is_enlarged_lies_where_the_picture_has_it():
    pixels, box = dotted(1600, 1200, (700, 500), 100)
    example = Example("a", lambda: pixels, box, 1.0, score_map=lambda: ScoreMap(np.eye(40, dtype=np.float32), True))
    figure = figure_of(example, "best")
    (panel,) = figure.details
    x, y, width, height = panel.layer
    scale = panel.width / 160  # 1.6 times the box
    assert (width, height) == (1600 * scale, 1200 * scale)
    assert (x, y) == (-670 * scale, -470 * scale)
    assert figure.whole.layer == (0, 0, figure.whole.width, figure.whole.height)


def test_a_box_of_nearly_the_whole_picture_is_not_enlarged():
    pixels = np.zeros((300, 400, 3), np.uint8)
    assert figure_of(Example("a", lambda: pixels, [0, 0, 390, 290], 1.0), "best").details == ()


def test_small_pictures_are_sorted_by_their_probability():
    pixels = np.zeros((300, 400, 3), np.uint8)
    sample = tuple(Example(str(p), lambda: pixels, [0, 0, 9, 9], 1.0, probability=p) for p in (0.2, 0.5, 0.89, 0.9))
    (galleries,) = class_galleries([ClassSummary("a", sample=sample)], 20)
    (gallery,) = galleries.parts[0].galleries
    assert [(key, count) for key, _, count in gallery.levels] == [("high", 1), ("middle", 2), ("low", 1)]
    unknown = tuple(replace(example, probability=None) for example in sample)
    (galleries,) = class_galleries([ClassSummary("a", sample=unknown)], 20)
    assert galleries.parts[0].galleries[0].levels == []


def test_the_fewer_pictures_the_larger_they_are():
    sides = [longest_side(n) for n in range(1, 500)]
    assert sides == sorted(sides, reverse=True)
    assert (sides[0], sides[-1]) == (1280, 320)
    for n, side in enumerate(sides, 1):
        assert side == 320 or n * side * side * 3 / 4 <= PAGE_PIXELS
    one = Example("a", lambda: np.zeros((300, 400, 3), np.uint8), [0, 0, 300, 300], 1.0)
    assert (figure_of(one).whole.width, figure_of(one).whole.height) == (400, 300)  # never larger than its file


def dotted(width=1600, height=1200, at=(700, 500), size=10):
    """A grey picture with a bright square of a few pixels, and its box."""
    pixels = np.full((height, width, 3), 90, dtype=np.uint8)
    x, y = at
    pixels[y : y + size, x : x + size] = (250, 240, 20)
    return pixels, [x, y, x + size, y + size]


def test_a_defect_of_ten_pixels_is_seen_in_a_detail_at_the_resolution_of_its_file():
    pixels, box = dotted()
    figure = figure_of(Example("a", lambda: pixels, box, 1.0, [box]))
    (detail,) = figure.details
    assert (detail.width, detail.height) == (30, 30)  # three times the box, one pixel each
    found, truth = detail.overlays
    assert [(one.kind, one.x, one.y, one.width, one.height) for one in (found, truth)] == [
        ("found", 10, 10, 10, 10),
        ("truth", 10, 10, 10, 10),
    ]
    shown = np.asarray(opened(detail.source)).astype(int)
    assert abs(shown[15, 15] - (250, 240, 20)).max() < 40
    assert abs(shown[3, 3] - 90).max() < 40
    assert figure.panels == (figure.whole, detail)


def test_a_missed_defect_has_a_detail_of_its_own():
    pixels, box = dotted()
    wrong = [100, 100, 120, 110]
    window, missed = figure_of(Example("a", lambda: pixels, wrong, 1.0, [box])).details
    assert [one.kind for one in window.overlays] == ["found"]
    assert [one.kind for one in missed.overlays] == ["truth"]
    near = [box[0] - 4, box[1] - 4, box[2] + 4, box[3] + 4]
    assert len(figure_of(Example("a", lambda: pixels, near, 1.0, [box])).details) == 1


def test_of_two_models_both_boxes_have_a_detail():
    pixels, box = dotted()
    first, second = figure_of(Example("a", lambda: pixels, box, 1.0, second=[10, 10, 40, 40])).details
    assert [[one.kind for one in panel.overlays] for panel in (first, second)] == [["found"], ["second"]]


@pytest.mark.parametrize("box", [[0, 0, 10, 10], [1590, 1190, 1600, 1200], [-30, 500, 4, 520], [1599, 0, 1600, 1]])
def test_a_detail_at_the_edge_stays_in_the_picture(box):
    pixels, _ = dotted()
    (x1, y1, x2, y2), *_ = detail_regions(Example("a", lambda: pixels, box, 1.0), (1600, 1200))
    assert 0 <= x1 < x2 <= 1600
    assert 0 <= y1 < y2 <= 1200
    assert x2 - x1 == y2 - y1 >= 24


@pytest.mark.parametrize(
    ("box", "size"), [([0, 0, 500, 300], (600, 400)), ([2, 2, 5, 5], (20, 30)), ([0, 0, 1, 1], (1, 1))]
)
def test_a_box_that_is_large_in_its_picture_has_no_detail(box, size):
    assert detail_regions(Example("a", lambda: None, box, 1.0), size) == ()


def test_a_strip_of_a_picture_has_details_as_high_as_it_is():
    ((x1, y1, x2, y2),) = detail_regions(Example("a", lambda: None, [500, 0, 510, 5], 1.0), (2000, 5))
    assert (y1, y2, x2 - x1) == (0, 5, 30)
