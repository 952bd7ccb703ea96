"""What a baseline trains with: its constants, and the rule that chooses between several of them."""

from dataclasses import dataclass
from enum import StrEnum


class Method(StrEnum):
    """Names of the baselines."""

    MI_SVM = "mi_svm"
    WSDDN = "wsddn"
    OICR = "oicr"


HEADS = (Method.WSDDN, Method.OICR)


@dataclass(frozen=True)
class BaselineOptions:
    """The constants of a baseline; several values of one are compared by cross-validation."""

    method: Method
    folds: int
    margin: float = 0.0  # how far below the best a candidate may be
    seed: int = 0  # of the folds, and of a head's first weights and the order of its pictures
    epochs: tuple[int, ...] = (5, 10, 20)  # passes of a head
    lr: tuple[float, ...] = (0.01, 0.03, 0.1)  # Adam's steps
    weight_decay: float = 1e-5  # weight of |w|^2 / 2 in each step of a head
    C: tuple[float, ...] = (0.05, 0.5, 5.0)  # of MI-SVM, for features with a mean norm of 1, as J
    J: tuple[float, ...] = (1.0, 3.0)

    @property
    def needs_folds(self) -> bool:
        """Whether there are several candidates."""
        constants = (self.epochs, self.lr) if self.method in HEADS else (self.C, self.J)
        return any(len(set(values)) > 1 for values in constants)
