"""Pictures that look like one object are asked for, in one sentence."""

import numpy as np
import pytest
from lapsvm.pipelines.stages.data_checks.likeness import alike_groups, likeness_sentences
from PIL import Image

from lapsvm.catalog import CheckedPicture, ImageRecord, check_image
from lapsvm.pictures.likeness import brightness_steps


def texture(seed, size=(240, 320)):
    """Return a picture of a coarse random texture, float64 from 0 to 1."""
    coarse = np.random.default_rng(seed).random((size[0] // 10, size[1] // 10))
    return coarse.repeat(10, axis=0).repeat(10, axis=1)


def as_pixels(grey):
    return (255 * np.clip(grey, 0, 1)).astype(np.uint8)[..., None].repeat(3, axis=2)


def noisy(grey, seed):
    return grey + np.random.default_rng(seed).normal(0, 0.02, grey.shape)


VERSIONS = {
    "darker": lambda grey: 0.5 * grey,
    "brighter": lambda grey: grey**0.4,
    "noisy": lambda grey: noisy(grey, 1),
    "smaller": lambda grey: grey[::2, ::2],
    "low contrast": lambda grey: 0.4 + 0.2 * grey,
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_picture_at_another_exposure_size_or_with_noise_is_alike_and_others_are_not(version):
    pictures = [texture(seed) for seed in range(12)]
    again = [VERSIONS[version](grey) for grey in pictures[:3]]
    groups = alike_groups([brightness_steps(as_pixels(grey)) for grey in (*pictures, *again)])
    assert groups == [[0, 12], [1, 13], [2, 14]]


def test_products_of_one_kind_are_not_one_product():
    """Plates at one place on one background, each with a grain of its own."""
    plates = []
    for seed in range(20):
        grey = np.full((240, 320), 0.2)
        grey[40:200, 60:260] = 0.7
        plates.append(noisy(noisy(grey, seed), 100 + seed))
    assert alike_groups([brightness_steps(as_pixels(grey)) for grey in plates]) == []


def test_the_groups_of_many_pictures_are_those_of_plain_loops():
    steps = [np.random.default_rng(seed // 2).integers(-1, 2, 64, dtype=np.int8).tobytes() for seed in range(2100)]
    assert alike_groups(steps) == [[row, row + 1] for row in range(0, 2100, 2)]
    assert alike_groups([]) == alike_groups(steps[:1]) == []


def opened(tmp_path, names, seeds):
    found = []
    for name, seed in zip(names, seeds, strict=True):
        path = tmp_path / f"{name}.png"
        Image.fromarray(as_pixels(texture(seed) if seed is not None else np.zeros((40, 40)))).save(path)
        found.append((ImageRecord(name, path), check_image(path)))
    return found


def said(pictures, expression=""):
    return likeness_sentences(pictures, [], {"trainval": [record for record, _ in pictures]}, expression)


def test_one_sentence_asks_for_all_and_an_expression_answers_it(tmp_path):
    pictures = opened(tmp_path, ["break_2", "crack_7", "break_9", "ok_1", "ok_2", "ok_3"], [1, 2, 1, 3, 4, 4])
    (sentence,) = said(pictures)
    assert sentence.startswith(
        "pictures: break_2, break_9 look like one object, and 1 more groups so: are they? --group"
    )
    (left,) = said(pictures, "break")
    assert left.startswith("pictures: ok_2, ok_3 look like one object: are they?")
    assert said(pictures, "break|ok") == []


def test_pictures_that_show_nothing_many_of_one_look_and_unchecked_ones_are_not_asked_for(tmp_path):
    assert said(opened(tmp_path, ["a", "b"], [None, None])) == []
    assert said(opened(tmp_path, [f"p{number}" for number in range(13)], [5] * 13)) == []
    assert said([(ImageRecord("a", tmp_path / "a.png"), CheckedPicture("digest"))]) == []
