"""Labels that a reader hands out are +1, -1 or 0, whoever wrote the reader."""

import numpy as np
import pytest
from lapsvm.pipelines.run import dataset as labels
from lapsvm.pipelines.run.dataset import open_run_data, positive_pictures
from lapsvm.pipelines.settings.settings import DataSettings

from lapsvm.catalog import ImageRecord, PresentClasses
from lapsvm.errors import LabelsError


class Set:
    """A data set of three pictures, one of which has another label."""

    name, classes, sets = "mine", ("cat",), ("trainval",)

    def __init__(self, label):
        self.label = label

    def records(self, set_name):
        values = {"a": 1, "b": -1, "c": self.label}
        return [ImageRecord(name, None, {"cat": value}) for name, value in values.items()]


@pytest.mark.parametrize("label", [np.nan, 2, 0.5, 255, "1", None])
def test_a_label_that_is_none_is_refused_with_its_picture(label, monkeypatch):
    monkeypatch.setattr(labels, "open_dataset", lambda *_, **__: Set(label))
    with pytest.raises(LabelsError, match=r"labels of picture 'c' must be \+1, -1 or 0, got .* for 'cat'"):
        open_run_data(DataSettings("mine", "there"), seed=0)


@pytest.mark.parametrize("label", [1.0, True, np.int8(-1), 0])
def test_labels_of_any_type_are_labels(label, monkeypatch):
    monkeypatch.setattr(labels, "open_dataset", lambda *_, **__: Set(label))
    assert open_run_data(DataSettings("mine", "there"), seed=0).classes == ("cat",)


def test_positive_pictures_have_a_class_of_the_run():
    present = dict.fromkeys(("cat", "dog", "cow"))
    values = {
        "one": {"cat": 1, "dog": -1}, "none": {"cat": -1, "dog": 0}, "other": {"cow": 1, "cat": -1}, "nothing": {},
        "few": PresentClasses(present, ["dog", "cow"]), "cow": PresentClasses(present, ["cow"]),
    }  # fmt: skip
    records = [ImageRecord(name, None, labels) for name, labels in values.items()]
    assert positive_pictures(records, ("cat", "dog")) == {"one", "few"}
    assert positive_pictures(records, ()) == frozenset()
