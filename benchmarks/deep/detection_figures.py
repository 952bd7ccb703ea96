"""Figures of the comparison in `detection.py`: per seed, and their means with intervals over pictures."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from lapsvm.pipelines.results.figures.draws import corloc_figure, detection_figures, mean_figure
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.settings import DetectSettings

from lapsvm.detection.picture_scores import detect_windows
from lapsvm.evaluation import Detections, corloc, draw_pictures, evaluate_voc

DRAWS, DRAWS_SEED = 1000, 0
FIGURES = ("corloc", "ap_11point", "ap_area")
PAIRS = (
    ("latent frozen", "latent tuned"),
    ("wsddn frozen", "wsddn tuned"),
    ("wsddn tuned", "latent tuned"),
    ("wsddn frozen", "latent frozen"),
)


class Evaluation:
    """The detections of several methods, and what they are worth."""

    def __init__(self, context: RunContext, names: Sequence[str], rules: Mapping[str, DetectSettings]) -> None:
        self._context, self._names, self._rules = context, names, rules
        self._found = {
            (method, set_name, name): [] for method in rules for set_name in ("trainval", "test") for name in names
        }

    def add(self, method: str, set_name: str, image: str, boxes: np.ndarray, scores: np.ndarray) -> None:
        """Add the detections of all classes in a picture."""
        for column, name in enumerate(self._names):
            found = detect_windows(scores[:, column], boxes, self._rules[method])
            self._found[method, set_name, name].append((image, *found))

    def store(self, work: Path, seed: int, facts: dict) -> None:
        """Write the figures of a seed, and their bootstrap draws."""
        rows, draws = {}, {}
        for method in self._rules:
            made = self._figures(method)
            rows[method] = {figure: {name: entry.value for name, entry in own.items()} for figure, own in made.items()}
            draws |= {f"{method}/{figure}": own["mean"].draws for figure, own in made.items()}
            print(method, " ".join(f"{figure} {rows[method][figure]['mean']:.4f}" for figure in FIGURES), flush=True)
        np.savez(work / f"draws{seed}.npz", **draws)
        (work / f"seed{seed}.json").write_text(json.dumps({"figures": rows, **facts}, indent=1))

    def _figures(self, method: str) -> dict[str, dict]:
        """Return figure -> class or "mean" -> value and draws."""
        made: dict[str, dict] = {figure: {} for figure in FIGURES}
        for set_name in ("trainval", "test"):
            truth = self._context.data.dataset.ground_truth(set_name)
            ids = [record.id for record in self._context.data.records[set_name]]
            counts = draw_pictures(len(ids), DRAWS, DRAWS_SEED)
            found = {name: Detections.from_images(self._found[method, set_name, name]) for name in self._names}
            report = corloc(found, truth) if set_name == "trainval" else evaluate_voc(found, truth)
            for name in self._names:
                result = report.classes[name]
                if set_name == "trainval":
                    made["corloc"][name] = corloc_figure(result, ids, counts)
                else:
                    for figure, entry in detection_figures(result, found[name], truth[name], ids, counts).items():
                        made[figure][name] = entry
        return {figure: {**own, "mean": mean_figure(list(own.values()))} for figure, own in made.items()}

    @staticmethod
    def report(work: Path) -> None:
        """Print the means over seeds, with intervals over pictures and the spread of the seeds."""
        seeds = sorted(int(path.stem.removeprefix("seed")) for path in work.glob("seed*.json"))
        stored = [json.loads((work / f"seed{seed}.json").read_text()) for seed in seeds]
        draws = [np.load(work / f"draws{seed}.npz") for seed in seeds]
        print(f"seeds {seeds}, steps {stored[0]['steps']}")
        names = list(stored[0]["figures"]["latent frozen"]["corloc"])
        for figure in FIGURES:
            print(f"\n{figure} ({', '.join(names)}; interval over pictures, standard deviation over seeds)")
            for method in stored[0]["figures"]:
                values = np.array([[entry["figures"][method][figure][name] for name in names] for entry in stored])
                low, high = _interval(np.mean([own[f"{method}/{figure}"] for own in draws], axis=0))
                row = " | ".join(f"{value:.3f}" for value in values.mean(axis=0))
                spread = values[:, -1].std(ddof=1) if len(seeds) > 1 else float("nan")
                print(f"| {method} | {row} | {low:.3f} to {high:.3f} | {spread:.4f} |")
            for first, second in PAIRS:
                each = [
                    entry["figures"][second][figure]["mean"] - entry["figures"][first][figure]["mean"]
                    for entry in stored
                ]
                changes = [own[f"{second}/{figure}"] - own[f"{first}/{figure}"] for own in draws]
                low, high = _interval(np.mean(changes, axis=0))
                shown = ", ".join(f"{value:+.4f}" for value in each)
                print(f"{second} - {first}: {np.mean(each):+.4f} ({low:+.4f} to {high:+.4f}); seeds {shown}")
        print("\nCPU seconds:", {key: [entry["seconds"][key] for entry in stored] for key in stored[0]["seconds"]})
        print("all:", [entry["all"] for entry in stored])
        print("objectives:", [[round(r["objective"], 4) for r in e["records"]["latent tuned"]] for e in stored])
        print("wsddn:", [entry["records"]["wsddn tuned"] for entry in stored])


def _interval(draws: np.ndarray) -> tuple[float, float]:
    """Return the 95 % percentile interval."""
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return float(low), float(high)
