"""Each next step is shown for what it is about, and never for the opposite."""

from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import binomtest

from lapsvm.report import BoxMoves, Contents, Findings, StepCommands, next_steps, render_page
from lapsvm.report.next_steps import FEW_PICTURES

COMMANDS = StepCommands(("install a network",), ("take another network",), ("review <them>",))
FINE = Findings("cat", 100, 200, image_ap=0.95, chance=1 / 3)
EASY = replace(FINE, image_ap=1.0, scene_may_decide=True)
CASES = {
    "Too few pictures": (replace(FINE, positive=12), "12 with it, 200 without"),
    "Unseen pictures are separated by less than half": (replace(FINE, image_ap=0.5), "image AP 0.500, by chance 0.333"),
    "Unseen pictures are separated nearly perfectly": (replace(EASY, image_ap=0.98), "image AP 0.980"),
    "Boxes are not settled": (
        replace(FINE, boxes=BoxMoves(59, 41)),
        "59 of 100 boxes stayed where they began",
    ),
    "Parts of the boxes separate the pictures too": (replace(FINE, telling_parts=(61, 100)), "in 61 of 100 pictures"),
}


@pytest.mark.parametrize("finding", CASES)
def test_a_step_alone_is_shown_for_its_case(finding):
    found, number = CASES[finding]
    (step,) = next_steps([found])
    assert (step.finding, step.classes) == (finding, (("cat", number),))


@pytest.mark.parametrize(
    "found",
    [
        FINE,
        Findings("cat", 100, 100),
        replace(FINE, negative=FEW_PICTURES, positive=FEW_PICTURES),
        replace(FINE, image_ap=None, chance=1.0),
        replace(FINE, image_ap=1.0),
        replace(EASY, image_ap=0.979),
        replace(EASY, verdicts=1),
        replace(FINE, telling_parts=(59, 100)),
        replace(FINE, telling_parts=(100, 100), verdicts=1),
        replace(FINE, boxes=BoxMoves(60, 40)),
        replace(FINE, boxes=BoxMoves(0, 0)),
        replace(FINE, boxes=BoxMoves(2, 0)),
    ],
)
def test_no_step_is_shown_where_nothing_is_wrong(found):
    assert next_steps([found]) == ()


def test_gradients_are_named_as_the_reason_only_where_they_are_used_alone():
    weak = replace(FINE, image_ap=0.5)
    (gradients,) = next_steps([weak], ["hog?size=3"], COMMANDS)
    assert gradients.options == COMMANDS.first_network
    for extractors in (["efficientnet_lite0"], ["hog", "onnx:a.onnx"], []):
        (network,) = next_steps([weak], extractors, COMMANDS)
        assert network.options == COMMANDS.other_network


@pytest.mark.parametrize("options", [("take a network",), ('pip install ".[photos]"', "take a network")])
def test_what_is_installed_is_not_to_be_installed(options):
    (step,) = next_steps([replace(FINE, image_ap=0.5)], ["hog"], StepCommands(first_network=options))
    assert step.options == options
    assert ("installed" in step.advice) == (len(options) == 2)


def test_who_has_looked_at_boxes_is_not_told_to_look():
    moving = replace(FINE, boxes=BoxMoves(1, 9))
    (step,) = next_steps([replace(moving, verdicts=5), replace(moving, name="dog")])
    assert [name for name, _ in step.classes] == ["dog"]
    assert next_steps([replace(moving, verdicts=1)]) == ()


@pytest.mark.parametrize("pictures", [5, 30, 137])
def test_boxes_are_settled_where_the_interval_lies_above_one_half(pictures):
    """The rule is Wilson's interval, solved for one half."""
    for stayed in range(pictures):
        found = replace(FINE, boxes=BoxMoves(stayed, pictures - stayed))
        low = binomtest(stayed, pictures).proportion_ci(method="wilson").low
        assert bool(next_steps([found])) == (low <= 0.5)


def test_the_command_of_a_run_is_shown():
    moving = [replace(FINE, boxes=BoxMoves(1, 9))]
    (step,) = next_steps(moving, commands=COMMANDS)
    assert step.options == COMMANDS.review
    assert next_steps(moving)[0].options == ()


def test_classes_share_a_step():
    few = replace(FINE, name="dog", positive=3, image_ap=0.4)
    steps = next_steps([CASES["Unseen pictures are separated by less than half"][0], few])
    assert [[name for name, _ in step.classes] for step in steps] == [["dog"], ["cat", "dog"]]


def test_the_page_shows_steps_above_the_results(make_summary):
    steps = next_steps([replace(FINE, name="<b>", positive=12, image_ap=0.4)], (), COMMANDS)
    source = render_page(Contents(make_summary(), (), next_steps=steps))
    assert source.index("Too few pictures") < source.index("<h2>Results</h2>")
    assert "&lt;b&gt;</span> (12 with it, 200 without)" in source
    assert "<code>take another network</code>" in source
    assert "Next steps" not in render_page(Contents(make_summary(), ()))


def test_every_step_stands_on_its_page():
    rows = (Path(__file__).parents[2] / "docs" / "howto" / "what_now.md").read_text().split("\n## ")[0].splitlines()
    for finding in CASES:
        assert any(row.startswith(f"| {finding} |") for row in rows)
    assert str(FEW_PICTURES) in next(row for row in rows if row.startswith("| Too few"))
