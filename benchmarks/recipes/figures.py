"""The figures of detections on a set of pictures, for `variants.py`."""

from collections.abc import Mapping
from typing import Any

from lapsvm.pipelines.annotations.known_boxes import BoxSource
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.figures.evaluation import evaluate_set
from lapsvm.pipelines.figures.held_out import Unseen

from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import Detections, class_table, corloc, evaluate_voc, pointing
from lapsvm.evaluation.measures import image_ap
from lapsvm.evaluation.tables import Row

Truth = Mapping[str, Mapping[str, GroundTruth]]


def figures_of(detections: Mapping[str, Detections], truth: Truth, *more: Mapping[str, Row]) -> dict[str, Any]:
    """Return {"classes", "mean", "hits"}: AP, CorLoc, pointing, `more`; and CorLoc's hits by picture as digits."""
    places = corloc(detections, truth)
    table = class_table(
        evaluate_voc(detections, truth).rows(), places.rows(), pointing(detections, truth).rows(), *more
    )
    hits = {name: "".join(str(int(hit)) for hit in of_class.hits) for name, of_class in places.classes.items()}
    return {"classes": table["classes"], "mean": table["mean"], "hits": hits}


def run_figures(context: RunContext, set_name: str) -> dict[str, Any]:
    """Return the figures of a finished run on one of its sets, and the CPU seconds of training and refinement."""
    stored = context.stored
    evaluation = evaluate_set(stored, BoxSource.of(stored, context.reporter.say), set_name)
    rankings = evaluation.rankings.items()
    more = [{name: {"image_ap": image_ap(ranking.scores, ranking.labels)} for name, ranking in rankings}]
    held_out = Unseen.of_run(stored).figures(evaluation.truth) if set_name == stored.train_set else None
    if held_out is not None:
        rows, keys = held_out.classes.items(), ("corloc", "pointing", "image_ap")
        more.append({name: {f"held_out_{key}": row[key].value for key in keys} for name, row in rows})
    timings = context.run.timings()
    seconds = {stage: timings[stage]["cpu_seconds"] for stage in ("train", "refine") if stage in timings}
    return figures_of(evaluation.located, evaluation.truth, *more) | {"cpu_seconds": seconds}
