"""Layerwise training of a piecewise-linear network under a rank loss."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lapsvm.arrays import Array, Float64, check_choice, check_count, check_positive, check_switch
from lapsvm.errors import InputError, ShapeError
from lapsvm.nn.layerwise.descent import Descent, Effort, Record
from lapsvm.nn.layerwise.network import Layer, chain, network_type, run, trained
from lapsvm.nn.layerwise.problem import Blocks, LayerProblem, SummedHinge, as_float64, as_inputs, as_targets, split
from lapsvm.ranking import RankLoss, ZeroOneLoss
from lapsvm.ranking.losses import as_loss


@dataclass(eq=False, repr=False)
class LayerwiseSVM(BaseEstimator):  # type: ignore[misc]
    """Trains a piecewise-linear network layer by layer, each layer as a structural SVM with a rank loss.

    L. Berrada, A. Zisserman and M. P. Kumar, "Trusting SVM for piecewise linear CNNs", ICLR 2017 (arXiv 1611.02185),
    with one ranking per class and mini-batch in place of their multi-class hinge, as in section 4.3 of P. Mohapatra et
    al., CVPR 2018. It starts at the network's weights, which another method has to bring near a good place. The
    objective is ``lam/2 sum |W|^2 + sum over mini-batches of their share of samples times the sum over classes of
    max over R of {Delta(R) + F(R) - F(R*)}``; |W| includes the bias. The layers are taken from the last to the first.

    Parameters
    ----------
    network : torch.nn.Sequential
        Of linear, convolutional, batch normalisation, ReLU, max and average pooling, flatten, identity and dropout
        modules, and Sequentials of these; other modules are refused. Batch normalisation is frozen and dropout switched
        off. float32 or float64. The network itself stays as it is; `fit` trains a copy.
    loss : str or rank loss, default "ap"
        A name of `lapsvm.ranking.losses.NAMED`, or a loss object. "zero_one" is the mean binary hinge of
        each class against the others.
    lam : float, default 1e-3
        Weight of ``|W|^2 / 2``, > 0.
    mu : float, optional
        Weight of ``|W - W_0|^2 / 2`` while a layer is trained, at least 0; W_0 is where the layer starts. By default
        10 lam, as in the paper. A last layer that comes from cross-entropy does better with lam / 10.
    batch_size : int, default 200
        Samples of a mini-batch, which is ranked by itself. All samples in one batch is the exact loss of the set.
    tol : float, default 0.01
        A layer is left after an epoch in which its dual rises by at most this share of itself.
    max_epochs : int, default 50
        Maximum number of epochs per layer and step.
    seed : int, default 0
        Seed of the mini-batches and of their order.
    scale : float, default 1.0
        Factor of the scores in F, > 0. F is a mean over pairs, so that AP among N negatives asks the best positive for
        a gap of N / (4 scale).
    activations : {"bounded", "fixed"}, default "bounded"
        How the score s(W) is made convex; see the notes.
    layers : list of str, optional
        Names of the linear and convolutional modules to train, as in the keys of the state dict. By default all.
    passes : int, default 1
        Passes over the layers.
    cccp_steps : int, default 1
        Steps of the concave-convex procedure per layer and pass.
    method : str, default "auto"
        Inference, as in :func:`lapsvm.ranking.most_violated_ranking`.
    report_primal : bool, default False
        Whether to compute the primal of the convex problem after every epoch, at the cost of a further pass.
    callback : callable, optional
        Called with each record of `history_`.

    Attributes
    ----------
    network_ : torch.nn.Sequential
        The trained copy, in evaluation mode.
    start_objective_, objective_ : float
        The objective before and after training.
    n_scores_ : int
        Number of scores per sample.
    history_ : list of dict
        One entry per epoch: layer, pass, step, epoch, dual, visited_gap (sum of the blocks' duality gaps, each when the
        block was visited), primal (or None), seconds and inference_seconds (CPU time of the process). A layer's last
        entry of a step has the objective reached and which weights were kept: "last", "average" or "start".

    Notes
    -----
    With everything else fixed, the score is a piecewise linear function of one layer's weights W: a difference of
    convex functions, split by the signs of the later weights. The hinge of a rank loss never falls as a
    negative's score rises or as a positive's falls.

    "bounded" therefore gives each negative a convex upper bound of its score and each positive a concave lower bound,
    both exact at W_0: the choices of ReLU and max pooling are fixed where the function has to be concave, and are
    maximised over where it has to be convex. Both bounds are carried from module to module, which is at least as tight
    as linearising the concave part of the paper's decomposition. For every R the maximum over choices separates by
    samples, so that inference is exact: the maximum over R and choices is the most violated ranking of the bounds. The
    convex problem lies above the objective and touches it at W_0: a step of the concave-convex procedure. The bounds
    widen with the depth that follows the layer, so that they permit only short steps in early layers.

    "fixed" fixes all choices at W_0, as the paper's program does for convolutions. The score is linear in W, inference
    is exact for it, and the convex problem is a structural SVM, which is not above the objective: an approximation.

    For both, block-coordinate Frank-Wolfe with exact line search solves the dual of the convex problem, one block per
    mini-batch. The dual never falls, which is checked, and bounds that convex problem's minimum, not the
    network's objective. The mean of the iterates, the last one or the start is kept: what has the least objective of
    the network itself, which therefore never rises. In the last linear layer both are an ordinary structural SVM.

    Memory: one float64 copy of the layer's weights per mini-batch, and the layer's inputs for all samples.

    Examples
    --------
    >>> import torch
    >>> from lapsvm.nn import LayerwiseSVM
    >>> inputs = torch.tensor([[0.0, 1.0], [1.0, 0.0], [3.0, 1.0], [2.0, 5.0]])
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 1))
    >>> model = LayerwiseSVM(network, lam=0.01).fit(inputs, [0, 0, 1, 1])
    >>> scores = model.decision_function(inputs)
    >>> bool(scores[2:].min() > scores[:2].max())
    True
    """

    network: torch.nn.Module
    loss: str | RankLoss | ZeroOneLoss = "ap"
    lam: float = 1e-3
    mu: float | None = None
    batch_size: int = 200
    tol: float = 0.01
    max_epochs: int = 50
    seed: int = 0
    _: KW_ONLY
    scale: float = 1.0
    activations: str = "bounded"
    layers: Sequence[str] | None = None
    passes: int = 1
    cccp_steps: int = 1
    method: str = "auto"
    report_primal: bool = False
    callback: Callable[[Record], None] | None = None

    def fit(self, inputs: Any, labels: ArrayLike) -> Self:
        """Train a copy of the network.

        Parameters
        ----------
        inputs : tensor or array (n, ...)
            What the network takes; converted to the type of its weights.
        labels : tensor or array (n, K), (n,)
            Binary: 1 positive, 0 or -1 negative; or, with several scores, class indices (n,) from 0 to K - 1.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If the network is not one of those above, an option breaks its rule, inputs or labels do not fit the network
            or are not finite, or no class has a positive and a negative in one mini-batch.
        CertificateError
            If a dual falls by more than rounding.
        """
        places = trained(chain(self.network), self.layers)
        self._check()
        self.network_ = _frozen_copy(self.network)
        layers = chain(self.network_)
        tensor = as_inputs(inputs, *network_type(layers))
        self.n_scores_ = self._probe(tensor)
        targets = as_targets(labels, self.n_scores_, len(tensor))
        rng = np.random.default_rng(check_count("seed", self.seed, least=0))
        blocks = split(targets, check_count("batch_size", self.batch_size), rng)
        self.history_: list[Record] = []
        self._train(layers, places, tensor, blocks, rng)
        return self

    def decision_function(self, inputs: Any) -> Float64:
        """Return the scores (n, K), or (n,) if the network has one score, in chunks of `batch_size`.

        Raises
        ------
        InputError
            If the inputs do not fit the network, or are not finite.
        """
        check_is_fitted(self)
        layers = chain(self.network_)
        tensor = as_inputs(inputs, *network_type(layers))
        n_scores = self._probe(tensor)
        if n_scores != self.n_scores_:
            raise ShapeError(
                f"inputs must give {self.n_scores_} score(s) each, got {n_scores} for {tuple(tensor.shape)}."
            )
        scores: Array = as_float64(self._run(layers, tensor)).reshape(len(tensor), -1)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _train(
        self, layers: list[Layer], places: list[int], inputs: torch.Tensor, blocks: Blocks, rng: np.random.Generator
    ) -> None:
        hinge = SummedHinge(as_loss(self.loss), float(self.scale), self.method)
        squares = {layers[index].name: _square(layers[index].module) for index in places}
        effort = Effort(float(self.tol), int(self.max_epochs), self.report_primal)
        mu = 10 * float(self.lam) if self.mu is None else float(self.mu)
        descent = Descent(squares, blocks, hinge, float(self.lam), mu, effort, rng)
        for number in range(self.passes):
            for index in places:
                before, layer = self._run(layers[:index], inputs), layers[index]
                later = [following.module for following in layers[index + 1 :]]
                for step in range(self.cccp_steps):
                    problem = LayerProblem(layer.module, later, before, blocks, hinge, self.activations == "bounded")
                    if not self.history_:
                        self.start_objective_ = descent.measure(problem)
                    about = {"layer": layer.name, "pass": number, "step": step}
                    for record in descent.improve(problem, about):
                        self.history_.append(record)
                        if self.callback is not None:
                            self.callback(record)
        self.objective_ = descent.objective

    def _run(self, layers: list[Layer], inputs: torch.Tensor) -> torch.Tensor:
        """Return the outputs of the modules, batch by batch."""
        modules = [layer.module for layer in layers]
        with torch.no_grad():
            parts = torch.split(inputs, self.batch_size)
            return torch.cat([run(modules, batch) for batch in parts]) if modules else inputs

    def _probe(self, inputs: torch.Tensor) -> int:
        """Return the number of scores per sample, from the first ones."""
        probe = inputs[:2]
        try:
            with torch.no_grad():
                scores: torch.Tensor = self.network_(probe)
        except (RuntimeError, ValueError, IndexError) as error:
            reason = str(error).split("\n", maxsplit=1)[0]
            raise InputError(f"inputs of shape {tuple(inputs.shape)} must fit the network; torch: {reason}.") from None
        if len(scores) != len(probe) or scores.ndim > 2 or not scores.numel():
            raise InputError(
                f"network must return (n, K) or (n,) scores, got {tuple(scores.shape)} for inputs of shape "
                f"{tuple(probe.shape)}."
            )
        return scores.numel() // len(probe)

    def _check(self) -> None:
        """Raise InputError or OptionError unless each option keeps its rule."""
        for name in ("lam", "tol", "scale"):
            check_positive(name, getattr(self, name))
        for name in ("max_epochs", "passes", "cccp_steps"):
            check_count(name, getattr(self, name))
        if self.mu is not None and self.mu != 0:
            check_positive("mu", self.mu)
        check_choice("activations", self.activations, ("bounded", "fixed"))
        check_switch("report_primal", self.report_primal)


def _frozen_copy(network: torch.nn.Module) -> torch.nn.Module:
    """Return a copy for evaluation that does not work in place: its first module would overwrite the inputs."""
    copied = copy.deepcopy(network).eval().requires_grad_(False)
    module: Any
    for module in copied.modules():
        if hasattr(module, "inplace"):
            module.inplace = False
    return copied


def _square(module: torch.nn.Module) -> float:
    return sum(float(np.sum(as_float64(parameter) ** 2)) for parameter in module.parameters())
