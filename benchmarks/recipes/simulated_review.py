"""A simulated person reviews a finished run: what refinement makes of the verdicts, held out.

The person answers from true boxes: takes the first candidate with an IoU of at least .6 with an object, draws the
largest object where there is none, and is wrong once in twenty (takes the first box, or none if that is right). Chains
without a fold are refined once for each way of using the verdicts; CorLoc is over the pictures of these folds, whose
labels and verdicts their chain has not seen. Before it, how often the interval of so many verdicts without
mistakes holds the share of all pictures.

    python benchmarks/recipes/simulated_review.py RUN --verdicts 20 --seeds 0,1,2 --folds 1,2,3

RUN is a finished run with shards, which is only read.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from lapsvm.pipelines.fitting.fold_models import FoldModels, seen_labels
from lapsvm.pipelines.fitting.refinement import Rounds, StoredPictures
from lapsvm.pipelines.fitting.tasks import fit_tasks
from lapsvm.pipelines.fitting.training_bags import Halves, stored_bags
from lapsvm.pipelines.fitting.verdicts import restart
from lapsvm.pipelines.fitting.verdicts.reviewed import ReviewedClass, Reviews
from lapsvm.pipelines.results.boxes.known import known_boxes
from lapsvm.pipelines.results.verified import share_interval
from lapsvm.pipelines.review.order import random_order
from lapsvm.pipelines.review.session import ReviewSession
from lapsvm.pipelines.run.verdicts import Verdict

from lapsvm.boxes import areas, iou
from lapsvm.detection.picture_scores import best_boxes

ACCEPTED, MISTAKES, DRAWS = 0.6, 0.05, 500
WAYS = ("no verdicts", "boxes", "boxes, restart")


def answer(candidates, truth, rng):
    """Return the verdict of the person on a picture with these objects (n, 4), and its boxes."""
    overlaps = iou(candidates, truth).max(axis=1)
    right = np.flatnonzero(overlaps >= ACCEPTED)
    if rng.random() < MISTAKES:
        return ("none", ()) if 0 in right else ("boxes", (tuple(candidates[0]),))
    box = candidates[right[0]] if len(right) else truth[np.argmax(areas(truth))]
    return "boxes", (tuple(float(value) for value in box),)


def review(session, one, truth, count, seed):
    """Return the verdicts of a person on `count` random pictures of a class, and how often what was done."""
    rng, verdicts, done = np.random.default_rng(seed), {}, {"first": 0, "other": 0, "drawn": 0, "none": 0}
    for place in random_order([session.ids[row] for row in one.rows], one.name, seed)[:count]:
        row = one.rows[place]
        name, candidates = session.ids[row], session.candidates(one, row)[0]
        kind, boxes = answer(np.array(candidates), truth[name].boxes, rng)
        done[_way(candidates, boxes)] += 1
        shown = tuple(map(tuple, candidates))
        verdicts[name] = Verdict(name, one.name, kind, boxes, shown, session.hashes[row], "random")
    return ReviewedClass(one.name, verdicts), done


def _way(candidates, boxes):
    if not boxes:
        return "none"
    given = list(boxes[0])
    return "first" if given == candidates[0] else "other" if given in candidates else "drawn"


def is_hit(box, objects) -> bool:
    return bool(iou(box[None], objects).max() > 0.5)


def coverage(held_out, truth, count, seed) -> float:
    """Return how often the interval of `count` random verdicts holds the CorLoc of all."""
    boxes = dict(zip(held_out.ids, held_out.boxes, strict=True))
    right = np.array([is_hit(boxes[name], of.boxes) for name, of in truth.items() if name in boxes and len(of.boxes)])
    rng, count = np.random.default_rng(seed), min(count, len(right))
    drawn = (int(rng.choice(right, count, replace=False).sum()) for _ in range(DRAWS))
    held = [share_interval(hits, count, len(right)) for hits in drawn]
    return float(np.mean([low <= right.mean() <= high for low, high in held]))


def stored_pictures(context, shards) -> StoredPictures:
    bags, scale = stored_bags(context, shards)
    boxes = np.concatenate([shard.boxes for shard in shards])
    inside = Halves.of(shards, context.settings.features.contrast).inside
    return StoredPictures(bags, boxes, scale, shards.image_ids, inside)


def refined(context, pictures, task, number, way):
    """Return the weights of the chain without fold `number` after a round."""
    models = FoldModels.load(context.run.fold_models(task.name))
    rounds = Rounds(context.settings, pictures, None, task.reviews.known)
    stored, y = models.coef[:, number - 1], seen_labels(task.y, models.fold)[number - 1]
    weights = np.divide(stored, pictures.scale, out=np.zeros_like(stored), where=pictures.scale > 0)
    chain = rounds.begin(y, weights, 0.0)
    if way == WAYS[2]:
        chain = restart.restarted(rounds, chain, pictures, task, context.reporter)
    (last,) = rounds.refined([chain], "", context.reporter)
    return rounds.lowered(last.weights), models.fold == number


def held_out_hits(context, pictures, task, truth, number, way):
    """Return picture -> whether its box is right, for the pictures of a fold with objects."""
    weights, is_held_out = refined(context, pictures, task, number, way)
    rows = np.flatnonzero(is_held_out & (task.y > 0))
    boxes, _ = best_boxes(pictures.bags, pictures.boxes, weights, rows, context.settings.detect)
    named = zip((pictures.ids[row] for row in rows), boxes, strict=True)
    return {name: is_hit(box, truth[name].boxes) for name, box in named if len(truth[name].boxes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--verdicts", type=int, default=20)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--folds", default="1,2,3")
    parser.add_argument("--classes", default="", help="separated by commas; all by default")
    options = parser.parse_args()
    session = ReviewSession.open(options.run, None, None, quiet=True)
    context = session.context
    truth = known_boxes(context, context.settings.data.train_set).truth
    pictures = stored_pictures(context, session.shards)
    for task, one in zip(fit_tasks(context, session.shards), session.classes, strict=True):
        if options.classes and one.name not in options.classes.split(","):
            continue
        for seed in map(int, options.seeds.split(",")):
            held = coverage(one.held_out, truth[one.name], options.verdicts, seed)
            reviewed, done = review(session, one, truth[one.name], options.verdicts, seed)
            print(json.dumps({"class": one.name, "seed": seed, "answers": done, "coverage": held}), flush=True)
            known = replace(task, reviews=Reviews(reviewed.known(pictures.ids, task.y)))
            for way in WAYS:
                right = {}
                for number in map(int, options.folds.split(",")):
                    of_way = task if way == WAYS[0] else known
                    right |= held_out_hits(context, pictures, of_way, truth[one.name], number, way)
                figure = {"way": way, "corloc": float(np.mean(list(right.values()))), "pictures": len(right)}
                print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
