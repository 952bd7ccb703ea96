"""Train a network on average precision itself, in a plain torch loop.

A network with one hidden layer learns the digits of scikit-learn, ten classes against each other: by cross-entropy,
and then by a rank loss of the whole training set, one ranking per class::

    python examples/rank_loss_training.py --loss ap --bound ramp --scale 1

Replace the data and the network with yours. Nothing else is needed: no sampler, no index of the samples. For
scores of more samples than fit into memory at once, `two_pass_backward` takes the place of the loss and of
``backward()``.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from lapsvm.nn import DirectLoss, RankHingeLoss, RankRampLoss, rank_hinge_loss, two_pass_backward

BOUNDS = {"hinge": RankHingeLoss, "ramp": RankRampLoss, "direct": DirectLoss}


def digits(share: float, noise: float) -> tuple[torch.Tensor, ...]:
    """Return training and test pictures (n, 64), and their classes (n,)."""
    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X / 16, y, train_size=share, random_state=0, stratify=y)
    pictures, test, classes, test_classes = map(torch.tensor, parts)
    generator = torch.Generator().manual_seed(0)
    pictures, test = (part + noise * torch.randn(part.shape, generator=generator) for part in (pictures, test))
    return pictures.float(), test.float(), classes, test_classes


def mean_average_precision(model: torch.nn.Module, X: torch.Tensor, classes: torch.Tensor) -> float:
    """Return the mean over the classes of the average precision of the model's own ranking."""
    with torch.no_grad():
        _, info = rank_hinge_loss(model(X), classes, return_info=True)
    return float(info.metric[info.valid].mean())


def main() -> None:
    """Train with cross-entropy, then with the rank loss, and print the test set's mean average precision."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loss", default="ap", choices=["ap", "ndcg", "auc"])
    parser.add_argument("--bound", default="ramp", choices=list(BOUNDS))
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the scores; tune it")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--chunks", type=int, default=1, help="2 or more: never hold a graph of the whole set")
    options = parser.parse_args()
    X, X_test, classes, test_classes = digits(0.5, 0.6)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 24), torch.nn.ReLU(), torch.nn.Linear(24, 10))
    train(model, X, classes, torch.nn.CrossEntropyLoss(), options.steps, 1)
    print(f"cross-entropy: mean AP {mean_average_precision(model, X_test, test_classes):.4f}")
    loss = BOUNDS[options.bound](options.loss, scale=options.scale)
    train(model, X, classes, loss, options.steps, options.chunks)
    print(f"{options.bound} of {options.loss}: mean AP {mean_average_precision(model, X_test, test_classes):.4f}")


def train(
    model: torch.nn.Module, X: torch.Tensor, classes: torch.Tensor, loss: torch.nn.Module, steps: int, chunks: int
) -> None:
    """Take steps of Adam on the whole set."""
    adam = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-2)
    batches = list(zip(X.chunk(chunks), classes.chunk(chunks), strict=True))
    for _ in range(steps):
        adam.zero_grad()
        if chunks > 1:
            two_pass_backward(model, batches, loss)
        else:
            loss(model(X), classes).backward()
        adam.step()


if __name__ == "__main__":
    main()
