"""Every rule holds for what it is about, and never for the opposite."""

from dataclasses import replace
from pathlib import Path

import pytest

from lapsvm.report import RULES, Contents, Findings, MissKind, next_steps, render_page
from lapsvm.report.next_steps import FEW_PICTURES

FINE = Findings(
    "cat", 100, 200, image_ap=0.95, chance=1 / 3, mean_probe_ap=0.9, corloc=0.7, misses=dict.fromkeys(MissKind, 3),
    area=0.3, agreement=0.8, window_recall=0.95, extractors=("efficientnet_lite0",),
)  # fmt: skip
NO_BOXES = replace(FINE, corloc=None, misses={}, window_recall=None)
POOR = replace(FINE, corloc=0.2)


def missed(kind, **more):
    """Findings in which half of the misses are of one kind."""
    return replace(POOR, misses=dict.fromkeys(MissKind, 5) | {kind: 15}, **more)


CASES = {
    "Too few pictures": (replace(FINE, positive=12), "12 with it, 200 without"),
    "Features are too weak": (replace(FINE, image_ap=0.5, extractors=("hog",)), "image AP 0.500, by chance 0.333"),
    "Unseen pictures are not told apart": (replace(FINE, image_ap=0.5), "image AP 0.500, by chance 0.333"),
    "Pictures are told apart by the scene": (
        replace(POOR, mean_probe_ap=1.0),
        "held-out image AP 1.000 by the mean of all windows",
    ),
    "Boxes are too large": (missed(MissKind.TOO_LARGE), "40% of the pictures"),
    "Boxes cover nearly whole pictures": (replace(NO_BOXES, area=0.9), "90% of the picture"),
    "Boxes show a part of the object": (missed(MissKind.TOO_SMALL), "40% of the pictures"),
    "Boxes lie beside the object": (missed(MissKind.POOR_OVERLAP), "40% of the pictures"),
    "Boxes lie on other objects": (missed(MissKind.WRONG_OBJECT), "40% of the pictures"),
    "Boxes depend on the pictures trained with": (replace(POOR, agreement=0.1), "median IoU 0.10"),
    "Windows miss objects": (replace(FINE, window_recall=0.6), "60% of the objects are covered"),
}


def test_every_rule_has_a_case():
    assert list(CASES) == [rule.finding for rule in RULES]


@pytest.mark.parametrize("finding", CASES)
def test_a_rule_alone_holds_for_its_case(finding):
    found, number = CASES[finding]
    steps = next_steps([found])
    assert [step.finding for step in steps] == [finding]
    assert steps[0].classes == (("cat", number),)


@pytest.mark.parametrize(
    "found",
    [
        FINE,
        NO_BOXES,
        POOR,  # misses of all kinds alike: none stands out
        Findings("cat", 100, 100),
        replace(FINE, negative=30, positive=30),
        replace(FINE, mean_probe_ap=1.0, image_ap=1.0),  # told apart by the scene, but the boxes are right
        replace(NO_BOXES, image_ap=1.0),  # perfect, and the scene alone does less well
        replace(FINE, extractors=("hog",)),  # gradients that suffice
        replace(NO_BOXES, area=0.79),
        replace(FINE, agreement=0.1),  # boxes are right, whatever the folds' models chose
        replace(FINE, area=0.95),  # objects that fill their pictures
        replace(FINE, corloc=1.0, misses={}),
        replace(FINE, image_ap=None, chance=1.0),
    ],
)
def test_no_rule_holds_where_nothing_is_wrong(found):
    assert next_steps([found]) == ()


@pytest.mark.parametrize("kind", MissKind)
def test_a_frequent_kind_of_miss_is_one_finding_alone(kind):
    """Too large is not too small, and a few misses are none."""
    assert len(next_steps([missed(kind)])) == 1
    assert next_steps([missed(kind, corloc=0.8)]) == ()


def test_the_scene_is_found_by_the_probe_or_else_by_image_ap():
    assert [step.finding for step in next_steps([replace(NO_BOXES, mean_probe_ap=1.0)])] == [
        "Pictures are told apart by the scene"
    ]
    assert [step.finding for step in next_steps([replace(NO_BOXES, mean_probe_ap=None, image_ap=1.0)])] == [
        "Pictures are told apart by the scene"
    ]


def test_gradients_are_named_as_the_reason_only_where_they_are_used():
    weak = replace(FINE, image_ap=0.5)
    (network,), (gradients,) = next_steps([weak]), next_steps([replace(weak, extractors=("hog?size=3",))])
    assert not any("photos" in option for option in network.options)
    assert 'pip install ".[photos]"' in gradients.options


def test_classes_share_a_step_and_options_in_use_are_left_out():
    few = replace(missed(MissKind.TOO_LARGE), name="dog", positive=3)
    steps = next_steps([missed(MissKind.TOO_LARGE), few], used={"--recipe best"})
    assert [[name for name, _ in step.classes] for step in steps] == [["dog"], ["cat", "dog"]]
    assert steps[1].options == ("--set windows.max_area=0.5", "lapsvm review")


def test_the_page_shows_steps_above_the_results(make_summary):
    steps = next_steps([replace(CASES["Boxes are too large"][0], name="<b>")])
    source = render_page(Contents(make_summary(), (), next_steps=steps))
    assert source.index("Boxes are too large") < source.index("<h2>Results</h2>")
    assert "&lt;b&gt;</span> (40% of the pictures)" in source
    assert "<code>--set windows.max_area=0.5</code>" in source
    assert "Next steps" not in render_page(Contents(make_summary(), ()))


def test_every_rule_stands_on_its_page_with_its_options():
    rows = (Path(__file__).parents[2] / "docs" / "howto" / "what_now.md").read_text().split("\n## ")[0].splitlines()
    for rule in RULES:
        (row,) = [line for line in rows if line.startswith(f"| {rule.finding} |")]
        if "as above" not in row:
            assert all(option.split(" --")[0] in row for option in rule.options), row
    assert str(FEW_PICTURES) in next(row for row in rows if row.startswith("| Too few"))
