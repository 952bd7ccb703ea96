"""Kinds of errors: by hand on single boxes, and by plain loops on many."""

import numpy as np
import pytest

from lapsvm.boxes import iou
from lapsvm.catalog import GroundTruth
from lapsvm.errors import InputError, OptionError
from lapsvm.evaluation import Detections, ErrorKind, error_kinds, evaluate_voc
from lapsvm.evaluation.boxes.error_kinds import KINDS


def truth(boxes, difficult=None):
    boxes = np.array(boxes, dtype=float).reshape(-1, 4)
    return GroundTruth(boxes, np.zeros(len(boxes), bool) if difficult is None else np.array(difficult, bool))


def errors_of(rows, cats, dogs=(), cat_flags=None, names=("cat",)):
    """The errors of boxes of cats in one picture, best first."""
    rows = np.array(rows, dtype=float).reshape(-1, 4)
    found = {"cat": Detections(("a",) * len(rows), -np.arange(len(rows)), rows)}
    found |= {name: Detections((), [], np.empty((0, 4))) for name in names if name != "cat"}
    objects = {"cat": {"a": truth(cats, cat_flags)}, "dog": {"a": truth(dogs)}}
    return error_kinds(evaluate_voc(found, objects), found, objects)


CAT, DOG = (0, 0, 100, 100), (200, 0, 300, 100)


@pytest.mark.parametrize(
    ("box", "kind"),
    [
        (CAT, None),
        ((0, 0, 100, 51), None),
        ((0, 0, 100, 49), ErrorKind.LOCALISATION),
        ((0, 0, 100, 11), ErrorKind.LOCALISATION),
        ((0, 0, 100, 9), ErrorKind.BACKGROUND),
        (DOG, ErrorKind.CLASS),
        ((200, 0, 300, 49), ErrorKind.BOTH),
        ((200, 0, 300, 9), ErrorKind.BACKGROUND),
        ((400, 0, 500, 100), ErrorKind.BACKGROUND),
        ((100, 100, 0, 0), ErrorKind.BACKGROUND),
    ],
)
def test_the_kind_of_a_single_box(box, kind):
    found = errors_of([box], [CAT], [DOG])["cat"]
    assert found.kinds.tolist() == [-1 if kind is None else KINDS.index(kind)]


def test_a_second_detection_of_an_object_is_a_duplicate():
    found = errors_of([CAT, (0, 0, 100, 90)], [CAT])["cat"]
    assert (found.n_correct_top, found.count(ErrorKind.DUPLICATE)) == (1, 1)
    assert found.n_top[ErrorKind.DUPLICATE] == 0  # one object, so only the best detection is looked at


def test_a_second_detection_on_another_class_too_is_a_duplicate():
    """TIDE, which asks for a class error before a duplicate, counts it as a class error."""
    found = errors_of([CAT, (0, 0, 100, 90)], [CAT], [(0, 0, 100, 60)])["cat"]
    assert [found.count(kind) for kind in (ErrorKind.DUPLICATE, ErrorKind.CLASS)] == [1, 0]


def test_a_box_on_two_classes_counts_for_its_own():
    found = errors_of([(0, 0, 100, 45)], [CAT], [(0, 0, 100, 50)])["cat"]
    assert found.count(ErrorKind.LOCALISATION) == 1


def test_difficult_objects_are_no_errors_but_can_be_confused():
    assert errors_of([CAT], [CAT], cat_flags=[True])["cat"].kinds.tolist() == [-1]
    objects = {"cat": {"a": truth([])}, "dog": {"a": truth([DOG], [True])}}
    found = {"cat": Detections(("a",), [1.0], [DOG])}
    assert error_kinds(evaluate_voc(found, objects), found, objects)["cat"].count(ErrorKind.CLASS) == 1


def test_an_object_is_missed_unless_a_detection_of_any_class_lies_on_it():
    far = (0, 300, 100, 400)
    assert errors_of([CAT], [CAT, far])["cat"].missed == 1
    assert errors_of([CAT, (0, 300, 100, 330)], [CAT, far])["cat"].missed == 0
    both = errors_of([DOG], [CAT], [DOG], names=("cat", "dog"))
    assert (both["cat"].missed, both["dog"].missed) == (1, 0)


def test_mending_one_kind_alone_gives_the_expected_ap():
    # best first: background, correct, localisation of an object that nothing matches; a third object is missed
    boxes = [(600, 0, 700, 100), CAT, (0, 300, 100, 330)]
    found = errors_of(boxes, [CAT, (0, 300, 100, 400), (0, 600, 100, 700)])["cat"]
    before = 1 / 3 * 1 / 2
    assert found.gains[ErrorKind.BACKGROUND] == pytest.approx(1 / 3 - before)
    assert found.gains[ErrorKind.LOCALISATION] == pytest.approx(2 / 3 * 2 / 3 - before)
    assert found.gains[ErrorKind.MISSED] == pytest.approx(1 / 2 * 1 / 2 - before)
    assert found.gains[ErrorKind.CLASS] == found.gains[ErrorKind.DUPLICATE] == 0


def test_without_objects_gains_are_undefined():
    found = errors_of([CAT], [])["cat"]
    assert set(found.gains.values()) == {None}
    assert found.row()["background"] == {"count": 1, "top": 0, "ap_gain": None}
    everything_missed = errors_of([], [CAT])["cat"]
    assert everything_missed.row()["missed"] == {"count": 1, "top": 1, "ap_gain": None}
    assert everything_missed.gains[ErrorKind.CLASS] == 0


def made_up(seed):
    """Detections of three classes around the objects of thirty pictures."""
    rng = np.random.default_rng(seed)
    names, images = ("ant", "bee", "cow"), [f"{number:02d}" for number in range(30)]
    objects = {name: {} for name in names}
    for image in images:
        for name in names:
            corner = rng.integers(0, 60, (rng.integers(0, 3), 2))
            boxes = np.hstack([corner, corner + rng.integers(10, 50, corner.shape)])
            objects[name][image] = truth(boxes, rng.random(len(boxes)) < 0.2)
    found = {}
    for name in names:
        ids = tuple(rng.choice(images, 200).tolist())
        pool = {image: np.vstack([objects[other][image].boxes for other in names]) for image in images}
        boxes = [
            pool[image][rng.integers(len(pool[image]))] + rng.integers(-12, 13, 4)
            if len(pool[image]) and rng.random() < 0.8
            else [*rng.integers(0, 50, 2), *rng.integers(60, 110, 2)]
            for image in ids
        ]
        found[name] = Detections(ids, rng.normal(size=200).round(1), boxes)
    return found, objects


def loops(report, found, objects, name):
    """The kinds of one class by the rules as they are written."""
    result, kinds = report.classes[name], []
    for index, outcome, partner in zip(result.order, result.matches.outcome, result.matches.partner, strict=True):
        image, box = found[name].image_ids[index], found[name].boxes[[index]]
        own = iou(box, objects[name][image].boxes).max(initial=0)
        other = max(iou(box, objects[o][image].boxes).max(initial=0) for o in objects if o != name)
        if outcome != -1:
            kinds.append(-1)
        elif partner >= 0:
            kinds.append(KINDS.index(ErrorKind.DUPLICATE))
        elif own >= 0.1:
            kinds.append(KINDS.index(ErrorKind.LOCALISATION))
        elif other >= 0.5:
            kinds.append(KINDS.index(ErrorKind.CLASS))
        else:
            kinds.append(KINDS.index(ErrorKind.BOTH if other >= 0.1 else ErrorKind.BACKGROUND))
    return kinds


@pytest.mark.parametrize("seed", range(3))
def test_many_boxes_have_the_kinds_of_plain_loops(seed):
    found, objects = made_up(seed)
    report = evaluate_voc(found, objects)
    errors = error_kinds(report, found, objects)
    seen = set()
    for name in found:
        assert errors[name].kinds.tolist() == loops(report, found, objects, name)
        seen |= set(errors[name].kinds.tolist())
        assert all(0 <= gain <= 1 for gain in errors[name].gains.values())
        assert sum(errors[name].n_top[kind] for kind in KINDS[:-1]) + errors[name].n_correct_top == errors[name].npos
    assert seen == {-1, 0, 1, 2, 3, 4}


def test_wrong_calls_are_refused():
    found, objects = made_up(0)
    report = evaluate_voc(found, objects)
    with pytest.raises(InputError, match="background_iou must be greater than 0 and less than iou_threshold"):
        error_kinds(report, found, objects, 0.5, 0.5)
    with pytest.raises(OptionError, match="class 'cow' has detections but no ground truth"):
        error_kinds(report, found, {name: objects[name] for name in ("ant", "bee")})
