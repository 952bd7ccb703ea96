"""The network against its torch twin, and the classes that it sees in real pictures."""

from hashlib import sha256

import numpy as np
import pytest

from lapsvm.catalog import read_image
from lapsvm.features import open_extractor
from lapsvm.features.extractors.efficientnet.architecture import INPUT, MAPS, onnx_network
from lapsvm.features.extractors.efficientnet.checkpoint import read_legacy_checkpoint

SHA256 = "519f98a8e408275d6f9506a757fac1d36c9fd82a50db041269485d8eb3dcf9a9"
LINEAR = ("stride8", "stride16")  # maps without ReLU6: their values reach 40, so rounding is measured by the largest
SIZES = [(1, 1), (31, 33), (47, 97), (64, 96), (65, 130)]


@pytest.fixture(scope="module")
def twin(checkpoint):
    from io import BytesIO

    torch = pytest.importorskip("torch", reason="torch is not installed")
    from .torch_twin import Twin

    return Twin(torch.load(BytesIO(checkpoint), weights_only=True))


@pytest.fixture(scope="module")
def pictures(real_data):
    folder = real_data / "voc2007_vehicles_cat" / "JPEGImages"
    return [read_image(path) for path in sorted(folder.glob("*.jpg"))[:3]]


def check_maps(network, twin, batch):
    found, expected = network.run(batch), twin.maps(batch)
    assert set(found) == set(MAPS)
    for name, channels in MAPS.items():
        stride = int(name.removeprefix("stride").removesuffix("_expanded"))
        assert found[name].shape == (1, channels, *(-(-side // stride) for side in batch.shape[2:]))
        scale = max(1, abs(expected[name]).max()) if name in LINEAR else 1
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("size", SIZES)
def test_maps_are_the_twins_at_any_size(network, twin, size):
    check_maps(network, twin, np.random.default_rng(size).normal(size=(1, 3, *size)).astype(np.float32))


def test_maps_are_the_twins_on_real_pictures(network, twin, pictures):
    extractor = open_extractor("efficientnet_lite0?size=224")
    for pixels in pictures:
        check_maps(network, twin, extractor._batch(pixels))


def test_the_checkpoint_gives_the_same_file_every_time(checkpoint):
    assert sha256(onnx_network(read_legacy_checkpoint(checkpoint))).hexdigest() == SHA256


def test_colours_are_what_the_network_was_trained_on(checkpoint):
    pixels = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    batch = open_extractor("efficientnet_lite0?size=96")._batch(pixels)
    np.testing.assert_allclose(batch[0], (pixels.transpose(2, 0, 1) - 127.0) / 128, atol=1e-6)


CLASSES = {  # VOC's picture -> ImageNet's synset, as people would name what is in the picture
    "000014": "n02930766",  # cab
    "000028": "n02124075",  # Egyptian cat
    "000088": "n04310018",  # steam locomotive
    "000082": "n04285008",  # sports car
    "000188": "n04335435",  # streetcar
    "000511": "n02917067",  # bullet train
}


@pytest.mark.parametrize(("picture", "synset"), CLASSES.items())
def test_imagenet_classes_of_real_pictures_are_right(network, checkpoint, real_data, picture, synset):
    lines = (real_data / "weights" / "imagenet_synsets_1000.txt").read_text().splitlines()
    tensors = read_legacy_checkpoint(checkpoint)
    pixels = read_image(real_data / "voc2007_vehicles_cat" / "JPEGImages" / f"{picture}.jpg")
    extractor = open_extractor("efficientnet_lite0?size=320&output=stride32")
    mean = extractor.feature_map(pixels).mean(axis=(1, 2))
    scores = tensors["_fc.weight"] @ mean + tensors["_fc.bias"]
    assert lines[int(scores.argmax())].split()[0] == synset


def test_the_file_is_a_valid_network_with_the_same_bytes_every_time(checkpoint):
    onnx = pytest.importorskip("onnx")
    tensors = read_legacy_checkpoint(checkpoint)
    content = onnx_network(tensors)
    assert onnx_network(tensors) == content
    model = onnx.load_from_string(content)
    assert model.SerializeToString(deterministic=True) == content
    onnx.checker.check_model(model, full_check=True)
    assert [entry.name for entry in model.graph.input] == [INPUT]
    assert not any(node.op_type == "BatchNormalization" for node in model.graph.node)
