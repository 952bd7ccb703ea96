"""Features of drawn boxes: those of extraction, computed once, and what happens without the pictures."""

from contextlib import nullcontext

import numpy as np
import pytest
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.products import drawn
from lapsvm.pipelines.products.drawn import DrawnShard, as_windows
from lapsvm.pipelines.run.dataset import moved
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.shards import prefetch

from lapsvm.features import open_shards


class Listener:
    """Keeps the sentences."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)

    def warnings(self):
        return nullcontext()

    def bar(self, *_):
        from lapsvm.pipelines.run.progress import Reporter

        return Reporter(True).bar("", 1, "")


def opened(path, root=None):
    run = RunFolder(path)
    return RunContext(run, moved(run.settings(), root), 2, Listener())


def shards_of(context):
    return open_shards(context.run.shards("trainval"))


def drawn_windows(context, boxes):
    pictures, shards = context.stored.training_pictures, shards_of(context)
    shard = DrawnShard(context.workspace, context.settings, shards, pictures, context.open_extractor)
    return shard.windows(boxes)


@pytest.fixture
def stored(run_copy):
    """Three pictures of a run, each with some of its own windows: what extraction made of these."""
    shard = next(iter(shards_of(opened(run_copy))))
    rows = {0: [3, 7], 4: [11], 5: [0]}
    picked = {row: shard.offsets[row] + np.array(places) for row, places in rows.items()}
    return {shard.image_ids[row]: (shard.boxes[own], shard.features[own]) for row, own in picked.items()}


def boxes_of(stored):
    return {name: boxes for name, (boxes, _) in stored.items()}


def test_features_are_those_that_extraction_gives_the_same_windows(run_copy, stored):
    context = opened(run_copy)
    found = drawn_windows(context, boxes_of(stored))
    again = drawn_windows(context, boxes_of(stored))
    assert found.keys() == stored.keys() == again.keys()
    for name, (boxes, features) in stored.items():
        np.testing.assert_array_equal(again[name].boxes, boxes)
        np.testing.assert_array_equal(again[name].features, features)


def test_pictures_are_computed_once(run_copy, stored, monkeypatch):
    context, boxes = opened(run_copy), boxes_of(stored)
    drawn_windows(context, boxes)
    before = context.run.drawn_windows.read_bytes()
    seen, prepare = [], drawn.prepare_windows
    monkeypatch.setattr(drawn, "prepare_windows", lambda *given: seen.append(given) or prepare(*given))
    drawn_windows(context, boxes)
    assert (len(seen), context.run.drawn_windows.read_bytes()) == (0, before)
    name = next(iter(boxes))
    drawn_windows(context, boxes | {name: boxes[name] + 1})
    assert len(seen) == 1
    drawn_windows(context, boxes)
    assert (len(seen), context.run.drawn_windows.read_bytes()) == (2, before)


def test_boxes_that_nobody_draws_any_more_are_forgotten(run_copy, stored):
    context, boxes = opened(run_copy), boxes_of(stored)
    drawn_windows(context, dict([*boxes.items()][:1]))
    before = context.run.drawn_windows.read_bytes()
    drawn_windows(context, boxes)
    drawn_windows(context, dict([*boxes.items()][:1]))
    assert context.run.drawn_windows.read_bytes() == before
    assert drawn_windows(context, {}) == {}
    assert not context.run.drawn_windows.exists()


def test_an_interrupted_command_keeps_what_it_has(run_copy, stored, monkeypatch):
    context, boxes, prepare = opened(run_copy), boxes_of(stored), drawn.prepare_windows
    context.threads = 1
    left = iter([prepare, prepare])

    def prepare_twice(*given):
        return next(left)(*given)

    monkeypatch.setattr(drawn, "STORED_AT_ONCE", 1)
    monkeypatch.setattr(prefetch, "PREFETCHED", 1)
    monkeypatch.setattr(drawn, "prepare_windows", prepare_twice)
    with pytest.raises(RuntimeError):  # the third picture
        drawn_windows(context, boxes)
    seen = []
    monkeypatch.setattr(drawn, "prepare_windows", lambda *given: seen.append(given) or prepare(*given))
    assert drawn_windows(context, boxes).keys() == boxes.keys()
    assert len(seen) < len(boxes)


def test_pictures_that_are_gone_or_changed_are_left_out_and_said(run_copy, stored, digits, tmp_path):
    import shutil

    copied = shutil.copytree(digits, tmp_path / "digits")
    gone, changed, _ = stored
    (copied / "JPEGImages" / f"{gone}.jpg").unlink()
    other = next(path for path in sorted((copied / "JPEGImages").iterdir()) if path.stem not in stored)
    shutil.copy(other, copied / "JPEGImages" / f"{changed}.jpg")
    context = opened(run_copy, str(copied))
    assert len(drawn_windows(context, boxes_of(stored))) == 1
    (line,) = context.reporter.lines
    assert "boxes drawn in 2 pictures" in line
    assert "their nearest windows are used instead" in line


def test_another_extractor_gives_no_features(run_copy, stored):
    from dataclasses import replace

    context = opened(run_copy)
    features = replace(context.settings.features, extractors=("hog?cell=4",))
    context.settings = replace(context.settings, features=features)
    assert drawn_windows(context, boxes_of(stored)) == {}
    (line,) = context.reporter.lines
    assert "nearest windows" in line
    assert not context.run.drawn_windows.exists()


def test_windows_are_whole_pixels_inside_the_picture():
    boxes = np.array([[-0.7, 2.4, 9.6, 30.4], [3.2, 3.2, 3.4, 3.4], [39.8, 19.9, 41.0, 21.0]])
    assert as_windows(boxes, (20, 40)).tolist() == [[0, 2, 10, 20], [3, 3, 4, 4], [39, 19, 40, 20]]
