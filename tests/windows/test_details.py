"""Windows of `small`: the laws of sources, scores against sums written out, and faults that have no contour."""

import numpy as np
import pytest

from lapsvm.boxes import iou
from lapsvm.errors import OptionError
from lapsvm.testing.windows import ProposalLaws
from lapsvm.windows import METHODS, propose
from lapsvm.windows.details import APART, RING, SHARES, STEPS, _peaks, details


class TestSmall(ProposalLaws):
    def make(self):
        return METHODS["small"]


def tracks(seed, shape=(240, 320)):
    """Light tracks on a dark board with gaps, and the boxes of the gaps."""
    rng, plane, boxes = np.random.default_rng(seed), np.full(shape, 60.0), []
    for y in range(20, shape[0] - 20, 24):
        plane[y : y + 6] = 180
        x = int(rng.integers(20, shape[1] - 40))
        plane[y : y + 6, x : x + 8] = 60
        boxes.append((x - 2, y - 3, x + 10, y + 9))
    noisy = np.clip(plane + rng.normal(0, 3, shape), 0, 255).astype(np.uint8)
    return np.repeat(noisy[:, :, None], 3, axis=2), np.array(boxes, float)


def recall(method, count, seeds=range(4)):
    found = [iou(boxes, propose(image, method, max_windows=count)).max(axis=1) for image, boxes in map(tracks, seeds)]
    return (np.concatenate(found) >= 0.5).mean()


def test_gaps_in_tracks_are_found_where_nothing_ends():
    assert recall("small", 1000) == 1
    assert recall("mixed", 1000) < 0.5


def scores(values, width, height):
    """Scores of all windows by their definition: the mean inside less that of the ring, borders repeated."""
    x_ring, y_ring = round(width * RING), round(height * RING)
    around = np.pad(values, ((y_ring, y_ring), (x_ring, x_ring)), mode="edge")
    step, found = max(1, round(min(width, height) / STEPS)), {}
    for y in range(0, values.shape[0] - height + 1, step):
        for x in range(0, values.shape[1] - width + 1, step):
            both = around[y : y + height + 2 * y_ring, x : x + width + 2 * x_ring]
            inside = values[y : y + height, x : x + width]
            ring = (both.sum() - inside.sum()) / (both.size - inside.size)
            found[y // step, x // step] = np.float32(inside.mean() - ring)
    return found, step


@pytest.mark.parametrize(("width", "height"), [(6, 6), (12, 7), (5, 11)])
def test_windows_are_the_best_among_their_neighbours(width, height):
    values = np.random.default_rng(width).integers(0, 50, (37, 41)).astype(float)
    of_place, step = scores(values, width, height)
    across, down = (max(1, round(APART * side / step)) for side in (width, height))
    best = {
        (x * step, y * step): score
        for (y, x), score in of_place.items()
        if score > 0
        and all(score >= other for (v, u), other in of_place.items() if abs(v - y) <= down and abs(u - x) <= across)
    }
    boxes = _peaks(values, width, height)
    assert {(x, y) for x, y, _, _ in boxes.tolist()} == set(best)
    assert (boxes[:, 2:] - boxes[:, :2] == [width, height]).all()
    found = [best[x, y] for x, y, _, _ in boxes.tolist()]
    assert len(found) > 5
    np.testing.assert_allclose(found, sorted(found, reverse=True), rtol=1e-5)


def test_each_source_has_its_share_of_the_first_windows():
    image, _ = tracks(0)
    of_edges, of_corners = ({tuple(box) for box in boxes.tolist()} for boxes in details(image))
    first = METHODS["small"](image, "fast", 0, 1)[: 10 * sum(SHARES)].tolist()
    for own, share in ((of_edges, SHARES[3]), (of_corners, SHARES[4])):
        assert sum(tuple(box) in own for box in first) >= 10 * share


def test_even_pictures_and_tiny_ones_have_no_details():
    for shape in ((64, 64, 3), (3, 5, 3)):
        edges, corners = details(np.full(shape, 90, np.uint8))
        assert (edges.shape, corners.shape) == ((0, 4), (0, 4))


def test_an_unknown_mode_is_refused():
    with pytest.raises(OptionError, match="mode 'best' of selective_search is not known"):
        propose(tracks(0)[0], "small", mode="best")
