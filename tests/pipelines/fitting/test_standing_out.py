"""What the page says of what stands out, by what models record."""

import pytest
from lapsvm.pipelines.fitting.standing_out import class_sentence, recorded, source_sentences

from lapsvm.detection import Detector
from lapsvm.errors import ModelFileError
from lapsvm.objectness.u2netp import NETWORK_SHA256

LOOK = "Whether that is the cat, only a look says."
NETWORK = {"kind": "saliency-network", "weights": "0123456789abcdef"}


def model(result=None, source=NETWORK, classes=(), name="cat", **more):
    used = {"source": source, "weight": 2.0, "classes": list(classes)}
    return Detector(name, [0.0], provenance={"training": {"objectness": used}, "result": {**(result or {}), **more}})


def counted(stands_out, share):
    return {"objectness": {"stands_out": stands_out, "share": share}}


@pytest.mark.parametrize(
    ("detector", "sentence"),
    [
        (model(counted(0.584, 1.0)), f"Boxes of cat end where something stands out (objectness 0.58). {LOOK}"),
        (model(counted(0.15, 0.5)), f"What stands out counts by 50 % in boxes of cat (objectness 0.15). {LOOK}"),
        (model(counted(0.04, 0.0)), "cat does not stand out: not used (objectness 0.04)."),
        (
            model(counted(0.04, 1.0), classes=["cat"]),
            f"Boxes of cat end where something stands out, as the settings say (objectness 0.04). {LOOK}",
        ),
        (model(classes=["dog"]), "What stands out is not used: the settings name other classes."),
        (model(), "What stands out is not used: no picture with cat was measured."),
    ],
)
def test_a_class_has_one_sentence(detector, sentence):
    assert class_sentence("cat", recorded(detector)) == sentence
    looked = class_sentence("cat", recorded(detector), "14 of 20 right: 48 to 85 %")
    assert looked == sentence.replace(LOOK, "By verdicts 14 of 20 right: 48 to 85 %.")


@pytest.mark.parametrize("training", [{}, {"loss": "ap"}, None])
def test_a_run_without_a_source_has_no_sentence(training):
    found = recorded(Detector("cat", [0.0], provenance={"training": training, "result": {}}))
    assert found is None
    assert class_sentence("cat", found) == ""
    assert source_sentences([found, None]) == ()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (NETWORK | {"weights": NETWORK_SHA256}, "u2netp, a network that has seen 10,553 masks of salient objects"),
        (NETWORK, "the network with the SHA-256 0123456789ab..., and what it has learned from is not recorded"),
        ({"kind": "normal-map"}, "what pictures without the classes lack; labels alone decide that"),
        ({"kind": "imported"}, "imported with the windows"),
        ({"kind": "brightest"}, "a source of your own, brightest."),
        ({}, "a source of your own, no name."),
    ],
)
def test_the_page_says_once_what_marks_what_stands_out(source, said):
    found = [recorded(model(counted(0.3, 1.0), source, name=name)) for name in ("cat", "dog")]
    sentence, how = source_sentences([None, *found])
    assert said in sentence
    assert "From 0.20 it counts in full" in how
    assert "up to 0.10 not at all" in how


@pytest.mark.parametrize(
    "damage", ["much", 7, {"stands_out": 0.3}, *(counted(*pair)["objectness"] for pair in (("0.3", 1.0), (0.3, None)))]
)
def test_a_damaged_record_is_refused(damage):
    with pytest.raises(ModelFileError, match="model 'cat' is damaged: objectness in its provenance is no result"):
        recorded(model({"objectness": damage}))


@pytest.mark.parametrize("used", ["u2netp", {}, {"source": "u2netp", "classes": []}, {"source": {}, "classes": "cat"}])
def test_damaged_settings_are_refused(used):
    provenance = {"training": {"objectness": used}, "result": {}}
    with pytest.raises(ModelFileError, match="is damaged"):
        recorded(Detector("cat", [0.0], provenance=provenance))
