"""What the stages of a command have made, for `--json`."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.features import ShardSet

from ..cli.answer import Outcome
from ..context import RunContext
from ..inspection.decisions import threshold_command
from ..products.models import load_detectors
from ..products.table import TRAINING, listed_places
from ..run.checked_files import read_json
from ..run.dataset import has_good_pictures
from ..shards.jobs import left_out

FOLLOWING = {
    "extract": "train",
    "import": "train",
    "refine": "detect",
    "detect": "evaluate",
    "evaluate": "report",
    "report": "review",
}
"""Stage -> the verb that usually follows; after training that is refinement where the run has rounds of it."""
_IN_SETS = ("pictures", "left_out", "with_boxes", "mean", "classes", "intervals", "held_out", "any_class")


def stage_outcome(context: RunContext) -> Outcome:
    """Return the files that a command has made, the figures of its stages, and the command that follows.

    The figures name what is in none of them: classes, and where pictures were opened those that cannot be read.
    """
    stages, last = set(context.stages), context.stages[-1]
    places = {"run": context.run.path} | listed_places(context.run, stages)
    places |= {"card": context.run.card} if context.card else {}
    made = {name: path for name, path in places.items() if path.exists()}
    figures: dict[str, Any] = {"skipped": {**context.data.skipped, **context.data.denied}}
    if stages & {"extract", "import"}:
        sets = {name: (records, context.shards(name)) for name, records in context.data.records.items()}
        figures["features"] = {name: _extracted(shards) for name, (_, shards) in sets.items()}
        figures["left_out"] = {name: left_out(records, shards) for name, (records, shards) in sets.items()}
    if stages & set(TRAINING):
        figures["training"] = {name: _trained(context.run.model(name)) for name in context.data.classes}
    if stages & {"evaluate", "report"}:
        figures |= _evaluated(context.run.evaluation_file)
    return Outcome(made, figures, _following(context, last))


def _following(context: RunContext, last: str) -> Sequence[str]:
    """Return the words of the command that follows a stage: a review, or for products a threshold if none is chosen."""
    folder = str(context.run.path.resolve())
    if last == "report" and has_good_pictures(context.data) and not context.run.threshold_file.is_file():
        detectors = {one.class_name: one for one in load_detectors(context.stored, "report")}
        if words := shlex.split(threshold_command(context.stored, detectors)):
            return [folder if word == str(context.run.path) else word for word in words]
    verb = FOLLOWING.get(last) or ("refine" if context.settings.refine.rounds else "detect")
    return "lapsvm", verb, "--out", folder


def _extracted(shards: ShardSet) -> dict[str, int]:
    """Return how many pictures and windows the shards of a set hold."""
    return {"pictures": len(shards.image_ids), "windows": shards.n_windows}


def _trained(model: Path) -> Mapping[str, Any]:
    """Return the training result that a model records; empty before refinement, which writes it."""
    return provenance_value(Detector.load(model), "result") if model.is_file() else {}


def _evaluated(path: Path) -> dict[str, Any]:
    """Return the figures of evaluation.json without the tables behind them; none where it is not there."""
    if not path.is_file():
        return {}
    table: dict[str, Any] = read_json(path)
    sets = {name: {key: entry[key] for key in _IN_SETS if key in entry} for name, entry in table["sets"].items()}
    return {"sets": sets} | ({"verified": table["verified"]} if "verified" in table else {})
