"""Train a CrossEncoder of sentence-transformers on average precision (or any rank loss) of each query's documents.

`RankingLoss` has the interface of that package's own losses, so a `CrossEncoderTrainer` takes it::

    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder import CrossEncoderTrainer

    model = CrossEncoder("distilroberta-base", num_labels=1)
    CrossEncoderTrainer(model=model, train_dataset=rows, loss=RankingLoss(model)).train()

A row has a query, a list of documents, and their labels: 1 for relevant ones, 0 for the others. Tried with version 6.2
of the package.
"""

from typing import Any

import torch

from lapsvm.nn import RankRampLoss


class RankingLoss(torch.nn.Module):
    """The mean over queries of a bound of 1 - AP; queries without a relevant or another document do not count.

    Parameters
    ----------
    model : CrossEncoder
        With one label.
    loss : torch.nn.Module, optional
        Of `lapsvm.nn`.
    """

    def __init__(self, model: Any, loss: torch.nn.Module | None = None) -> None:
        super().__init__()
        self.model, self.loss = model, loss or RankRampLoss("ap", scale=10)

    def forward(
        self, inputs: list[list[Any]], labels: list[torch.Tensor], prompt: str | None = None, task: str | None = None
    ) -> torch.Tensor:
        """Return the loss of a batch: queries, and for each a list of documents and labels (n,)."""
        queries, documents = inputs
        pairs = [(query, one) for query, own in zip(queries, documents, strict=True) for one in own]
        groups = torch.repeat_interleave(torch.arange(len(queries)), torch.tensor([len(own) for own in documents]))
        tokens = self.model.preprocess(pairs, prompt=prompt, task=task)
        device = self.model.device
        tokens = {name: one.to(device) if isinstance(one, torch.Tensor) else one for name, one in tokens.items()}
        scores = self.model(tokens)["scores"].view(-1)
        value: torch.Tensor = self.loss(scores, torch.cat([*labels]).to(device), groups=groups.to(device))
        return value
