"""Projections: principal components of each part, kept in a file that knows how they were made."""

import numpy as np
import pytest

from lapsvm.errors import InputError, MissingError, ModelFileError, SettingsError, ShapeError
from lapsvm.features import Block, Projected, Projection, fit_projection, load_projection, save_projection

BLOCKS = (Block(4), Block(6))
MADE_WITH = {"extractor": {"kind": "made up"}, "pca": 3}


def features(n=200, seed=0):
    """The first part varies along one direction only, the second along every one, less and less."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(n, 1)) * [[3.0, 0, 4, 0]]
    return np.hstack([first + 7, rng.normal(size=(n, 6)) * [32, 16, 8, 4, 2, 1]]).astype(np.float32)


class MadeUp:
    """An extractor whose features are the boxes' corners, over and over."""

    dim, blocks = 10, BLOCKS

    def describe(self):
        return {"kind": "made up"}

    def __call__(self, pixels, boxes):
        return np.tile(np.asarray(boxes, dtype=np.float32), 3)[:, :10]


def test_components_are_those_of_the_covariance():
    x = features().astype(np.float64)
    found = fit_projection([x[:50], x[50:]], BLOCKS, 2)
    assert [part.shape for part in found.components] == [(4, 2), (6, 2)]
    np.testing.assert_allclose(found.components[0][:, 0], [0.6, 0, 0.8, 0], atol=1e-6)
    covariance = np.cov(x[:, 4:].T)
    np.testing.assert_allclose(
        np.var(x[:, 4:] @ found.components[1], axis=0, ddof=1), np.linalg.eigvalsh(covariance)[::-1][:2], rtol=1e-5
    )
    assert found.kept[0] == pytest.approx(1)
    assert found.kept[1] == pytest.approx(np.linalg.eigvalsh(covariance)[::-1][:2].sum() / np.trace(covariance))


def test_a_share_keeps_as_few_components_as_reach_it():
    found = fit_projection([features()], BLOCKS, 0.97)
    assert [part.shape[1] for part in found.components] == [1, 3]
    assert min(found.kept) >= 0.97


def test_all_components_change_no_product():
    x = features()
    turned = fit_projection([x], BLOCKS, 99).apply(x)
    assert turned.shape == x.shape
    np.testing.assert_allclose(turned @ turned.T, x @ x.T, rtol=1e-3)


def test_the_order_of_windows_does_not_matter():
    x = features()[:, 4:]
    one, other = fit_projection([x], BLOCKS[1:], 3), fit_projection([x[::-1]], BLOCKS[1:], 3)
    np.testing.assert_allclose(one.apply(x), other.apply(x), atol=1e-3)


def test_unfolded_weights_give_the_same_scores():
    x, weights = features(), np.random.default_rng(1).normal(size=5)
    projection = fit_projection([x], BLOCKS, 0.97)
    assert len(projection.unfold(np.ones(4))) == 10
    projection = Projection((projection.components[0], np.eye(6, 4, dtype=np.float32)), (1.0, 1.0), (False, False))
    np.testing.assert_allclose(x @ projection.unfold(weights), projection.apply(x) @ weights, rtol=1e-4)


def test_a_context_takes_the_components_of_the_window():
    own, around = features()[:, 4:], np.random.default_rng(4).normal(size=(200, 6)).astype(np.float32)
    alone = fit_projection([own], BLOCKS[1:], 3)
    both = fit_projection([np.hstack([own, around])], [Block(12, True)], 3)
    np.testing.assert_allclose(both.components[0], alone.components[0], atol=1e-6)
    found = both.apply(np.hstack([own, around]))
    np.testing.assert_allclose(found, np.hstack([alone.apply(own), alone.apply(around)]), rtol=1e-4, atol=1e-4)
    contrast = alone.apply(own - 0.35 * around)
    np.testing.assert_allclose(found[:, :3] - 0.35 * found[:, 3:], contrast, rtol=1e-3, atol=1e-3)
    weights = np.arange(6.0)
    np.testing.assert_allclose(np.hstack([own, around]) @ both.unfold(weights), found @ weights, rtol=1e-3, atol=1e-2)


def test_a_part_that_never_varies_is_projected_without_a_fuss():
    found = fit_projection([np.ones((9, 10))], BLOCKS, 0.9)
    assert all(np.isfinite(part).all() for part in found.components)


@pytest.mark.parametrize("samples", [[], [np.ones((1, 10))]])
def test_one_window_is_too_few(samples):
    with pytest.raises(ShapeError, match="a projection needs at least two windows, got"):
        fit_projection(samples, BLOCKS, 2)


@pytest.mark.parametrize("size", [0, -1, np.nan, np.inf])
def test_a_size_that_is_no_size_is_refused(size):
    with pytest.raises(InputError, match="the size of a projection must be a finite number greater than 0"):
        fit_projection([features()], BLOCKS, size)


def test_an_extractor_is_projected_part_by_part():
    projection = fit_projection([features()], BLOCKS, 3)
    extractor, boxes = Projected(MadeUp(), projection), [[0, 1, 2, 3], [1, 1, 5, 9]]
    assert (extractor.dim, extractor.blocks) == (6, (Block(3), Block(3)))
    expected = MadeUp()(None, boxes)
    np.testing.assert_allclose(extractor(None, boxes)[:, :3], expected[:, :4] @ projection.components[0], rtol=1e-6)
    assert extractor.describe()["of"] == {"kind": "made up", "blocks": [4, 6], "has_context": [False, False]}
    assert extractor.describe()["components"] == projection.fingerprint


def test_a_projection_of_other_parts_is_refused():
    with pytest.raises(ShapeError, match=r"the projection must be of blocks of \[4, 6\] features, got \[5, 5\]"):
        Projected(MadeUp(), fit_projection([features()], [Block(5), Block(5)], 3))


def test_a_projection_comes_back_from_its_file(tmp_path):
    path, projection = tmp_path / "projection.safetensors", fit_projection([features()], BLOCKS, 3)
    save_projection(path, projection, MADE_WITH)
    first = path.read_bytes()
    found = load_projection(path, MADE_WITH)
    assert found.fingerprint == projection.fingerprint
    assert found.kept == projection.kept
    save_projection(path, found, MADE_WITH)
    assert path.read_bytes() == first


def test_a_projection_that_was_made_otherwise_is_refused(tmp_path):
    path = tmp_path / "projection.safetensors"
    save_projection(path, fit_projection([features()], BLOCKS, 3), MADE_WITH)
    with pytest.raises(SettingsError, match="was made with pca 3 instead of 4"):
        load_projection(path, MADE_WITH | {"pca": 4})


def test_no_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(MissingError, match="is not there"):
        load_projection(tmp_path / "nothing", MADE_WITH)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "projection.safetensors"
    save_projection(path, fit_projection([features()], BLOCKS, 3), MADE_WITH)
    content = path.read_bytes()
    for end in range(0, len(content), 37):
        path.write_bytes(content[:end])
        with pytest.raises(ModelFileError, match=r"is damaged|got an empty file"):
            load_projection(path, MADE_WITH)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ModelFileError, match="is damaged"):
        load_projection(path, MADE_WITH)
