"""Every test that asks for `matching` runs on the compiled matching and on its readable twin."""

import pytest

from lapsvm._ext import voc_matching as compiled
from lapsvm.evaluation.boxes import matching as door

from ..twins import evaluation as reference


@pytest.fixture(params=[compiled, reference], ids=["compiled", "reference"])
def matching(request, monkeypatch):
    monkeypatch.setattr(door, "_kernel", request.param)
    return request.param
