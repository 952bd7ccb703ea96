"""The check of a set's figures that were read from a file."""

import pytest

from lapsvm.errors import DataError
from lapsvm.evaluation import check_entry


def entry(**of_any):
    intervals = {"level": 0.95, "draws": 1000, "classes": {}, "mean": {}, "any_class": of_any}
    return {"classes": {}, "mean": {}, "held_out": {"intervals": intervals}, "intervals": intervals}


def test_intervals_of_any_class_may_be_missing():
    check_entry(entry(image_ap={"low": 0.1, "high": 0.9}, image_auroc=None))


@pytest.mark.parametrize("wrong", [{"low": 0.1}, {"low": 0.1, "high": "much"}, 0.5, [0.1, 0.9]])
def test_a_wrong_interval_of_any_class_is_named(wrong):
    with pytest.raises(DataError, match="image_auroc of any_class of"):
        check_entry(entry(image_auroc=wrong))
