"""What the simulated person says, how long it takes, and the curve over the number of verdicts."""

from dataclasses import dataclass

import numpy as np
import pytest
import simulated_review as sim
from lapsvm.pipelines.verdicts.verdict import Verdict

SHOWN = ((0.0, 0.0, 5.0, 5.0), (0.0, 0.0, 10.0, 10.0))
TRUTH = np.array([[0.0, 0, 10, 9], [50, 50, 60, 60]])


class Careful:
    """A source of chance by which the person is never wrong."""

    def random(self):
        return 1.0


def answer(*candidates):
    return sim.answer(np.array(candidates), TRUTH, Careful())


def test_the_first_right_candidate_is_taken_and_the_largest_object_drawn_without_one():
    assert answer(*SHOWN) == ("boxes", (SHOWN[1],))
    assert answer((0, 0, 5, 5), (20, 20, 30, 30)) == ("boxes", ((50.0, 50.0, 60.0, 60.0),))


def test_a_drawn_box_takes_twice_as_long_as_a_look():
    taken = Verdict("a", "cat", "boxes", SHOWN[:1], SHOWN)
    drawn = Verdict("b", "cat", "boxes", ((1.0, 1.0, 2.0, 2.0),), SHOWN)
    assert sim.seconds([taken, drawn, Verdict("c", "cat", "none", (), SHOWN)]) == 3.5 + 7 + 3.5


@dataclass
class Reviewed:
    """A class as a session has it: its rows, and held-out boxes that agree with final ones."""

    rows: list[int]
    agreement: np.ndarray
    name: str = "cat"

    def __post_init__(self):
        self.held_out = self
        self.ids = [f"p{row}" for row in self.rows]


@pytest.mark.parametrize(("count", "number"), [(4, 4), ("10%", 2), ("25%", 5), ("all", 20), (30, 20)])
def test_a_number_may_be_a_share_and_half_of_the_verdicts_may_be_on_pictures_of_least_agreement(count, number):
    one = Reviewed(list(range(20)), np.random.default_rng(0).random(20))
    by_chance = sim.asked(one, one, count, 0, "random")
    assert [kind for _, kind in by_chance] == ["random"] * number
    chosen = sim.asked(one, one, count, 0, "agreement")
    assert chosen[: (number + 1) // 2] == by_chance[: (number + 1) // 2]
    assert len(dict(chosen)) == len(chosen) == number
    least = [one.agreement[place] for place, kind in chosen if kind == "next"]
    others = [one.agreement[place] for place in range(20) if place not in dict(chosen)]
    assert least == sorted(least)
    assert max(least, default=0) <= min(others, default=1)


def test_the_curve_has_a_row_for_each_run_and_a_column_for_each_number(capsys):
    line = {"run": "cats", "seed": 0, "held_out": 0.5, "seconds": 0}
    sim.print_curve(
        [
            line | {"verdicts": 0},
            line | {"verdicts": 5, "held_out": 0.6, "seconds": 60},
            line | {"verdicts": 5, "held_out": 0.8, "seconds": 120, "seed": 1},
            line | {"run": "dogs", "verdicts": "all", "seconds": 600},
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "| run | 0 | 5 | all |",
        "|---|---|---|---|",
        "| cats | 0.500, 0.0 min | 0.700 [0.600, 0.800], 1.5 min |  |",
        "| dogs |  |  | 0.500, 10.0 min |",
    ]
