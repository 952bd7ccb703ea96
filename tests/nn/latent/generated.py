"""Generated bags, and the latent objective written anew with plain loops over windows, pairs and rankings."""

import numpy as np

from lapsvm.ranking import most_violated_ranking


def make_bags(seed, n_bags=24, dim=5, gap=1.5, equal=False):
    """Return arrays of windows and labels; one window of each positive lies `gap` higher in every feature."""
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(n_bags) < n_bags // 3, 1, -1)
    bags = [rng.normal(size=(8 if equal else rng.integers(2, 12), dim)) for _ in labels]
    for bag, label in zip(bags, labels, strict=True):
        bag[rng.integers(len(bag))] += gap * (label > 0)
    return bags, labels


def top_count(top, size):
    """Return how many windows represent a positive bag of this size."""
    return min(size, max(1, int(np.ceil(top * size - 1e-9)) if top < 1 else int(top)))


def latent_objective(w, bags, labels, C, loss, top, scale=1.0):
    """Return |w|^2 / 2 + C max_R { Delta + F(R) - F(R*) } with positives represented by their best windows at w."""
    scores = []
    for bag, label in zip(bags, labels, strict=True):
        own = sorted((float(sum(scale * x * v for x, v in zip(row, w, strict=True))) for row in bag), reverse=True)
        count = top_count(top, len(own)) if label > 0 else 1
        scores.append(sum(own[:count]) / count)
    kept = [i for i, label in enumerate(labels) if label]
    found = most_violated_ranking(np.array(scores)[kept], np.array(labels)[kept], loss, method="reference")
    return 0.5 * float(w @ w) + C * found.violation
