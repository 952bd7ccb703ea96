"""Blocks of features: their sizes, and what files record of them."""

import json

import numpy as np
import pytest

from lapsvm.detection import Detector
from lapsvm.detection.onnx_file import network_passes
from lapsvm.errors import OptionError, SettingsError
from lapsvm.features import HOG, Block, Concatenation, recorded_blocks, recorded_description
from lapsvm.features.extractors.blocks import block_record, sizes_of, split_blocks
from lapsvm.features.extractors.extractor import described_texts

BLOCKS = (Block(3), Block(4, has_context=True), Block(1))


class Silent:
    """An extractor whose description says nothing of its blocks."""

    dim, blocks = 8, BLOCKS

    def describe(self):
        return {"kind": "silent"}

    def __call__(self, pixels, boxes):
        return np.zeros((len(boxes), 8), np.float32)


@pytest.mark.parametrize(("block", "inside", "pieces"), [(Block(5), 5, (5,)), (Block(6, has_context=True), 3, (3, 3))])
def test_a_block_with_context_has_a_window_and_as_much_context(block, inside, pieces):
    assert (block.inside, block.pieces, sum(block.pieces)) == (inside, pieces, block.size)
    assert Block.of(inside, block.has_context) == block


def test_arrays_are_split_at_the_ends_of_blocks():
    parts = split_blocks(np.arange(16).reshape(2, 8), BLOCKS, axis=1)
    assert [part.tolist() for part in parts] == [[[0, 1, 2], [8, 9, 10]], [[3, 4, 5, 6], [11, 12, 13, 14]], [[7], [15]]]
    assert sizes_of(BLOCKS) == (3, 4, 1)


def test_files_record_blocks_as_those_of_0_1_0_do():
    assert json.dumps(block_record(BLOCKS)) == '{"blocks": [3, 4, 1], "has_context": [false, true, false]}'
    assert recorded_blocks(json.loads(json.dumps(block_record(BLOCKS)))) == BLOCKS


@pytest.mark.parametrize("extractor", [Silent(), Concatenation([HOG(), Silent()])])
def test_blocks_are_recorded_whether_or_not_a_description_holds_them(extractor):
    recorded = recorded_description(extractor)
    assert recorded_blocks(recorded) == tuple(extractor.blocks)
    assert recorded.items() >= extractor.describe().items()


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"blocks": [3]},
        {"blocks": [3], "has_context": []},
        {"blocks": 3, "has_context": 0},
        {"blocks": ["x"], "has_context": [0]},
        None,
    ],
)
def test_what_records_no_blocks_is_refused_in_a_sentence(description):
    with pytest.raises(SettingsError, match=r"^features must be recorded with .*, got .*; extract them again\.$"):
        recorded_blocks(description)


def test_what_names_no_kind_becomes_no_onnx_file():
    with pytest.raises(OptionError, match="extractor None is no network with pooled windows"):
        network_passes({"blocks": [2], "has_context": [False]}, [Detector("a", np.ones(2))])


def test_a_network_without_recorded_blocks_has_no_text():
    description = {"kind": "pooled-network", "network": "efficientnet_lite0", "contrast": 0.0}
    pooling = {"output": "stride32", "order": "rgb", "mean": [1, 2, 3], "scale": 1.0, "size": 64, "norm": "l2"}
    assert described_texts(description | pooling) is None
    assert described_texts(description | pooling | block_record([Block(6, has_context=True)]))[0].endswith(
        "context=appended"
    )
