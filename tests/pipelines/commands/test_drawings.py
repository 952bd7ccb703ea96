"""Drawn boxes: which, how thick, in what colour, and where their labels are."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from lapsvm.pipelines.commands.drawing.boxes import (
    COLOURS,
    DrawnBox,
    LabelStyle,
    draw_boxes,
    drawn_boxes,
    line_width,
    place_label,
    shown_name,
)
from PIL import Image

from lapsvm.detection.picture_scores import Detected

GREY = np.full((300, 400, 3), 128, np.uint8)


def detected(scores, probabilities=None):
    """Boxes of one class in a row."""
    boxes = np.array([[20 * number, 0, 20 * number + 10, 10] for number in range(len(scores))], float).reshape(-1, 4)
    return Detected(boxes, np.array(scores, float), None if probabilities is None else np.array(probabilities, float))


def shown(found, least=0.5):
    return [(box.name, box.value, round(box.strength, 3)) for box in drawn_boxes(found, least)]


def test_boxes_of_the_least_probability_are_drawn():
    found = {"cat": detected([3, 2, 1], [0.9, 0.5, 0.499]), "dog": detected([9, 8], [0.6, 0.1])}
    assert shown(found) == [("cat", "90%", 0.8), ("dog", "60%", 0.2), ("cat", "50%", 0.0)]
    assert shown(found, 0.95) == []
    assert shown(found, 0.6) == [("cat", "90%", 0.75), ("dog", "60%", 0.0)]


def test_a_probability_is_never_shown_larger_than_it_is():
    assert shown({"cat": detected([1, 1], [0.999, 1.0])}) == [("cat", "100%", 1.0), ("cat", "99%", 0.998)]
    assert shown({"cat": detected([1], [1.0])}, least=1)[0][:2] == ("cat", "100%")


def test_without_probabilities_boxes_of_half_the_best_score_are_drawn():
    found = {"cat": detected([0.2, 0.1, 0.09]), "dog": detected([0.15, -0.1]), "cow": detected([0.08])}
    assert shown(found) == [("cat", "0.20", 1.0), ("dog", "0.15", 0.5), ("cat", "0.10", 0.0)]


@pytest.mark.parametrize("scores", [[], [0.0], [-1.0, -2.0]])
def test_without_positive_scores_nothing_is_drawn(scores):
    assert shown({"cat": detected(scores)}) == []


def test_classes_with_and_without_probabilities_follow_their_own_rules():
    found = {"cat": detected([90, 1], [0.7, 0.2]), "dog": detected([0.2, 0.05])}
    assert shown(found) == [("dog", "0.20", 1.0), ("cat", "70%", 0.4)]


# pictures


def drawing(tmp_path, boxes, pixels=GREY):
    draw_boxes(pixels, boxes, tmp_path / "drawn" / "one.png")
    return np.array(Image.open(tmp_path / "drawn" / "one.png"))


def has_colour(pixels, colour):
    return (pixels == colour).all(axis=-1)


def test_a_box_has_the_colour_of_its_class_and_a_label_on_its_background(tmp_path):
    for number in (0, 3, len(COLOURS) + 3):
        pixels = drawing(tmp_path, [DrawnBox([100, 100, 300, 250], "cat", "90%", number, 1.0)])
        assert pixels.shape == GREY.shape
        own = has_colour(pixels, COLOURS[number % len(COLOURS)])
        for y, x in ((101, 200), (248, 200), (175, 101), (175, 298)):  # inside of the four edges
            assert own[y, x]
        assert (pixels[110:240, 110:290] == 128).all()  # nothing inside
        rows = np.nonzero(own)[0]
        assert rows.min() < 95  # the label, above the box
        label = pixels[rows.min() : 99, 101:130].reshape(-1, 3).astype(int)
        assert abs(label - COLOURS[number % len(COLOURS)]).sum(axis=1).max() > 300  # letters stand out


def test_lines_are_thicker_for_stronger_boxes_and_larger_pictures():
    widths = [line_width(strength, 500) for strength in (0, 0.5, 1)]
    assert widths == sorted(set(widths))
    assert [line_width(0, side) for side in (20, 500, 2000)] == [1, 2, 8]


def test_the_strongest_box_is_drawn_on_top(tmp_path):
    strong, weak = (DrawnBox([100, 100, 300, 250], "a", "1", number, 1 - number) for number in (0, 1))
    pixels = drawing(tmp_path, [strong, weak])
    assert has_colour(pixels, COLOURS[0])[248, 200]


def test_colours_differ_for_colour_blind_people():
    """Viénot, Brettel and Mollon's simulation of protanopia and deuteranopia (1999), in linear light."""
    linear = (np.array(COLOURS) / 255) ** 2.2
    for rows in ([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0]], [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0]]):
        seen = linear @ np.array([*rows, [0.004, -0.004, 1]]).T
        levels = np.clip(seen, 0, 1) ** (1 / 2.2) * 255
        assert min(abs(one - other).max() for one, other in combinations(levels, 2)) > 20


@pytest.mark.parametrize("size", [(400, 300), (32, 32), (3000, 2000), (60, 400), (1, 1)])
def test_labels_stay_inside_of_any_picture(tmp_path, size):
    width, height = size
    style = LabelStyle.of_picture(width, height)
    boxes = [[0, 0, width, height], [width - 1, 0, width, 1], [0, height - 1, 1, height], [-5, -5, width + 9, 3]]
    for box in boxes:
        label = style.size_of(style.fit("an aeroplane with a very long name", "95%"))
        x1, y1, x2, y2 = place_label(box, label, (width, height), [])
        assert (x1 >= 0, y1 >= 0, x2 - x1, y2 - y1) == (True, True, *label)
        assert x2 <= max(width, label[0])
        assert y2 <= max(height, label[1])
    drawn = [DrawnBox(box, "an aeroplane with a very long name", "95%", 0, 1.0) for box in boxes]
    assert drawing(tmp_path, drawn, np.zeros((height, width, 3), np.uint8)).shape == (height, width, 3)


def test_labels_cover_no_other_label_where_there_is_a_place():
    taken = []
    for _ in range(6):
        taken.append(place_label([100, 100, 250, 280], (60, 20), (400, 300), taken))
    for one, other in combinations(taken, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    assert taken[0] == (100, 80, 160, 100)


def test_a_label_without_a_place_is_left_out_and_hides_no_other(tmp_path):
    black, box = np.zeros((40, 60, 3), np.uint8), [2, 2, 58, 38]
    best = DrawnBox(box, "scratch", "97%", 0, 1.0)
    taken = [place_label(box, LabelStyle.of_picture(60, 40).size_of("scratch 97%"), (60, 40), [])]
    assert place_label([0, 0, 9, 9], (60, 40), (60, 40), taken) is None
    x1, y1, x2, y2 = taken[0]
    further = [replace(best, value=f"{value}%", strength=0.5) for value in range(60, 70)]
    alone, among = (drawing(tmp_path, boxes, black) for boxes in ([best], [best, *further]))
    assert (alone[y1:y2, x1:x2] == among[y1:y2, x1:x2]).all()


def test_long_names_are_cut_and_values_kept():
    style = LabelStyle.of_picture(120, 120)
    text = style.fit("a very long name of a class indeed", "95%")
    assert text.startswith("a very")
    assert text.endswith("… 95%")
    assert style.size_of(text)[0] <= 120
    assert style.fit("cat", "95%") == "cat 95%"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cat", "cat"),
        ("naïve café", "naive cafe"),
        ("Größe", "Grosse"),
        ("猫", "class 7"),
        ("кот 2", "??? 2"),
        ("a\tb", "a?b"),
        ("e\u0301t", "et"),
    ],
)
def test_names_are_written_in_the_letters_of_the_font(name, expected):
    assert shown_name(name, 7) == expected
