"""What the tests of EfficientNet-Lite0 share; they skip where the extra photos is not installed."""

import pytest

from lapsvm.features.extractors.efficientnet import photos_installed
from lapsvm.features.extractors.efficientnet.extractor import read_checkpoint_file


@pytest.fixture(scope="session")
def checkpoint():
    """The content of the package's checkpoint."""
    if not photos_installed():
        pytest.skip("the extra photos is not installed")
    return read_checkpoint_file()


@pytest.fixture(scope="session")
def network(checkpoint, tmp_path_factory):
    """The network, opened from the ONNX file that is made of the checkpoint."""
    from lapsvm.features.extractors.efficientnet.architecture import onnx_network
    from lapsvm.features.extractors.efficientnet.checkpoint import read_legacy_checkpoint
    from lapsvm.features.extractors.networks import RuntimeNetwork

    return RuntimeNetwork("efficientnet_lite0", onnx_network(read_legacy_checkpoint(checkpoint)), 1)
