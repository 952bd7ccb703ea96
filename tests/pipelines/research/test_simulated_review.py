"""What the simulated person says, how long it takes, and the curve over the number of verdicts."""

import numpy as np
import simulated_review as sim
from lapsvm.pipelines.run.verdicts import Verdict

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
