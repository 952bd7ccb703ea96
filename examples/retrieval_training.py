"""Train a retrieval model on average precision per query, in a plain torch loop with lists of different lengths.

Queries and documents are vectors here, drawn at random; a linear map of the queries learns to find what they share
with relevant documents::

    python examples/retrieval_training.py --steps 100

Every query has its own number of documents. Rows of a batch are padded and a mask says what counts: one ranking per
column, so the scores are transposed.
"""

import argparse

import torch
from torch.nn.utils.rnn import pad_sequence

from lapsvm.nn import RankRampLoss, rank_hinge_loss

SIZE = 16


def drawn_lists(n_queries: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Return queries (q, d), documents (q, longest, d), labels (q, longest), and a mask of what is no padding."""
    hidden = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    queries = torch.randn(n_queries, SIZE, generator=generator)
    lengths = torch.randint(5, 40, (n_queries,), generator=generator).tolist()
    documents = [torch.randn(length, SIZE, generator=generator) for length in lengths]
    labels = [own @ (hidden @ query) > 6.0 for own, query in zip(documents, queries, strict=True)]
    mask = pad_sequence([torch.ones(length, dtype=torch.bool) for length in lengths], batch_first=True)
    return queries, pad_sequence(documents, batch_first=True), pad_sequence(labels, batch_first=True), mask


def scores_of(model: torch.nn.Module, queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
    """Return the scores (longest, q): one column, and so one ranking, per query."""
    return torch.einsum("qd,qnd->nq", model(queries), documents)


def main() -> None:
    """Train, and print the mean average precision of new queries before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.manual_seed(0)
    model, generator = torch.nn.Linear(SIZE, SIZE, bias=False), torch.Generator().manual_seed(1)
    test, loss = drawn_lists(300, generator), RankRampLoss("ap", scale=10)
    print(f"before: mean AP {mean_average_precision(model, *test):.3f}")
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(options.steps):
        queries, documents, labels, mask = drawn_lists(32, generator)
        adam.zero_grad()
        loss(scores_of(model, queries, documents), labels.T, mask.T).backward()
        adam.step()
    print(f"after: mean AP {mean_average_precision(model, *test):.3f}")


def mean_average_precision(
    model: torch.nn.Module, queries: torch.Tensor, documents: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> float:
    """Return the mean over queries that have relevant and other documents."""
    with torch.no_grad():
        _, info = rank_hinge_loss(scores_of(model, queries, documents), labels.T, mask.T, return_info=True)
    return float(info.metric[info.valid].mean())


if __name__ == "__main__":
    main()
