"""The line that says how long a run will take, by a clock of the test's own."""

import pytest
from lapsvm.pipelines.run.progress import AFTER, Estimate, roughly


class Spoken:
    """A reporter that keeps what it is told."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


class Clock:
    """Seconds that pass only when told."""

    now = 100.0

    def __call__(self):
        return self.now


def estimated(seconds, count=AFTER, total=300, later=0.0, skip=0, share=1.0, quick=0.01):
    """The lines said when `skip` quick pictures and then `count` slower ones are made."""
    spoken, clock = Spoken(), Clock()
    estimate = Estimate(spoken, later, clock)
    estimate.begin(total, skip)
    for number in range(skip + count):
        clock.now += quick if number < skip else seconds
        estimate.step(share=share)
    return spoken.lines


def test_one_line_after_twenty_pictures():
    assert estimated(0.6, AFTER - 1) == []
    assert estimated(0.6) == ["extract: about 3 min for 300 pictures"]
    assert estimated(0.6, 100) == estimated(0.6)


def test_later_stages_are_said_where_they_are_known():
    assert estimated(0.6, later=100.0) == [
        "extract: about 3 min for 300 pictures; training and detection take about 60 s more"
    ]


def test_pictures_of_which_a_part_is_done_count_in_part():
    assert estimated(0.48, share=0.8) == estimated(0.6)


def test_pictures_that_go_faster_are_not_measured():
    assert estimated(0.6, skip=64) == estimated(0.6)


def test_a_run_that_is_nearly_done_is_not_estimated():
    assert estimated(0.6, total=AFTER) == []


def test_the_count_begins_again_with_the_next_part_of_a_run():
    spoken, clock = Spoken(), Clock()
    estimate = Estimate(spoken, 0.0, clock)
    estimate.begin(1000)
    for _ in range(5):
        clock.now += 50
        estimate.step()
    estimate.begin(40)
    for _ in range(AFTER):
        clock.now += 2
        estimate.step()
    assert spoken.lines == ["extract: about 80 s for 40 pictures"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "5 s"), (43, "45 s"), (89, "90 s"), (91, "2 min"), (1000, "17 min"), (5400, "1 h 30 min"), (7150, "2 h")],
)
def test_durations_are_rounded(seconds, text):
    assert roughly(seconds) == text


def test_extraction_says_it_where_there_is_no_terminal(digits, tmp_path, command):
    line = [
        "extract",
        "--data",
        "voc",
        "--root",
        digits,
        "--extractor",
        "hog",
        "--windows",
        "grid",
        "--max-windows",
        "9",
    ]
    said = command(*line, "--classes", "six", "--out", tmp_path / "RUN")
    assert said.err.count("extract: about ") == 1
    assert " for 60 pictures\n" in said.err
    said = command(*line, "--classes", "six", "--pca", "5", "--quiet", "--out", tmp_path / "QUIET")
    assert said.err == ""
