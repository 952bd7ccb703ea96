"""EfficientNet-Lite0 in torch, written layer by layer from the state dict: slow, readable, batch norms not folded."""

import torch
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

# per block: stride, and whether the input is added; kernels and widths are those of the weights
STRIDES = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1]


def same_padded(x, weight, stride, groups=1):
    """TensorFlow's "same": ceil(n / stride) places, what is odd of the padding below and to the right."""
    pads = []
    for side, kernel in zip(x.shape[2:], weight.shape[2:], strict=True):
        total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
        pads.append((total // 2, total - total // 2))
    (top, bottom), (left, right) = pads
    return F.conv2d(F.pad(x, (left, right, top, bottom)), weight, stride=stride, groups=groups)


class Twin:
    """The network of a state dict; float64 unless told otherwise."""

    def __init__(self, state):
        self.state = {name: value.double() for name, value in state.items()}

    def norm(self, x, name):
        parts = (self.state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *parts, training=False, eps=1e-3)

    def layer(self, x, layer, norm, stride=1, groups=1):
        return self.norm(same_padded(x, self.state[f"{layer}.weight"], stride, groups), norm)

    def block(self, x, number, maps):
        name, before = f"_blocks.{number}", x
        if f"{name}._expand_conv.weight" in self.state:
            x = F.relu6(self.layer(x, f"{name}._expand_conv", f"{name}._bn0"))
            maps[f"expanded{number}"] = x
        x = F.relu6(self.layer(x, f"{name}._depthwise_conv", f"{name}._bn1", STRIDES[number], groups=x.shape[1]))
        x = self.layer(x, f"{name}._project_conv", f"{name}._bn2")
        return x + before if x.shape == before.shape else x

    @torch.inference_mode()
    def maps(self, batch):
        """Return the maps by the names of the extractor's outputs, and the scores of the classes."""
        maps = {}
        x = F.relu6(self.layer(torch.from_numpy(batch).double(), "_conv_stem", "_bn0", 2))
        for number in range(len(STRIDES)):
            x = maps[f"block{number}"] = self.block(x, number, maps)
        head = F.relu6(self.layer(x, "_conv_head", "_bn1"))
        scores = F.linear(head.mean((2, 3)), self.state["_fc.weight"], self.state["_fc.bias"])
        named = {"stride8": maps["block4"], "stride16": maps["block10"], "stride16_expanded": maps["expanded11"]}
        return {name: value.numpy() for name, value in (named | {"stride32": head, "scores": scores}).items()}
