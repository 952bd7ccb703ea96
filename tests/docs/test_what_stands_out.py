"""The pages on what stands out say what the program does."""

import re
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining.prior import STANDS_OUT, ObjectnessPrior, share_text
from lapsvm.pipelines.settings.settings import ObjectnessSettings

from lapsvm.objectness.regions import THRESHOLDS
from lapsvm.objectness.u2netp import LAST_PYTHON, PACKAGE

ROOT = Path(__file__).parents[2]
HOWTO, WHY = ((ROOT / "docs" / shelf / "what_stands_out.md").read_text("utf-8") for shelf in ("howto", "explanation"))


def decimal(value):
    """Return a share as pages write it: .1."""
    return f"{value:g}".lstrip("0")


def test_the_limits_of_the_share_are_those_of_the_program():
    low, high = map(decimal, STANDS_OUT)
    assert f"the share is 0 up to {low} and 1 from {high}" in WHY
    assert f"| {low} or less | does not count |" in HOWTO
    assert f"| {high} or more | counts in full |" in HOWTO


@pytest.mark.parametrize("standing", [STANDS_OUT[0], 0.16, STANDS_OUT[1], 0.43])
def test_the_howto_has_the_end_of_every_line(standing):
    prior = ObjectnessPrior(np.zeros(1), ObjectnessSettings().weight)
    assert f"| {share_text(prior.share(standing))} |" in HOWTO


def test_the_weight_is_the_default():
    (stated,) = re.findall(r"The default is ([\d.]+);", HOWTO)
    assert float(stated) == ObjectnessSettings().weight


def test_the_thresholds_of_regions_are_those_of_the_program():
    first, second, third = map(decimal, THRESHOLDS)
    assert f"the map above {first}, {second} and {third} are *regions*" in WHY


def test_the_package_for_newer_pythons_is_that_of_the_extra():
    (pinned,) = re.findall(rf'"({PACKAGE}==[\d.]+);', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert f"--ignore-requires-python {pinned}\n" in HOWTO
    assert f"## Python {LAST_PYTHON[0]}.{LAST_PYTHON[1] + 1} and newer" in HOWTO
