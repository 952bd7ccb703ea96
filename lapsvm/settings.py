"""How a picture becomes windows, features and detections: plain settings, which models record.

The module imports next to nothing, because the command line reads it before anything else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class ProposalSettings:
    """How windows are proposed by a method of `lapsvm.windows`, and how large pictures are reduced.

    Windows are proposed in a picture reduced to a longer side of ``proposal_side`` pixels, features are measured in one
    reduced to ``max_side``; smaller pictures are left as they are.
    """

    method: str = "selective_search"
    mode: str = "fast"
    max_windows: int = 2000
    max_area: float = 1.0
    proposal_side: int = 512
    max_side: int = 2048


@dataclass(frozen=True)
class NetworkSettings:
    """What holds for all networks whose text does not say otherwise.

    ``contrast`` is how much of a window's surroundings is taken away, in the features, or with ``beside`` in training,
    where refinement sees both parts; ``sizes`` are the longest sides at which a network sees each picture, side by
    side.
    """

    contrast: float = 0.0
    beside: bool = False
    sizes: tuple[int, ...] = ()

    def provenance(self) -> dict[str, Any]:
        """Return the settings that decide the features, as shards and models record them."""
        contrast = 0.0 if self.beside else self.contrast  # with both parts stored, training subtracts
        return {"contrast": contrast, "beside": self.beside, "sizes": list(self.sizes)}

    @classmethod
    def from_provenance(cls, stored: Mapping[str, Any]) -> Self:
        """Return the settings that a model records; a model of somebody else may hold other keys, too."""
        return cls(stored["contrast"], stored["beside"], tuple(stored["sizes"]))


@dataclass(frozen=True)
class DetectSettings:
    """How scores become detections."""

    nms_threshold: float = 0.3
    max_detections: int = 100
    demotion: float = 0.0
    score_smoothing: float = 0.0
    box_voting: float = 0.0
    box_voting_iou: float = 0.45
