"""`lapsvm run`, `demo`, and the verbs that are one stage each."""

from collections.abc import Mapping
from typing import Any

from ..cli.answer import Outcome
from ..cli.application import check_device
from ..cli.parameters import add_verb
from ..cli.parsing import setting_values
from ..settings.option import Option
from ..settings.options import panel

ALL_STAGES = ("extract", "train", "refine", "detect", "evaluate", "report")
DEMO: dict[str, Any] = {
    "data.name": "digits",
    "features.extractors": ("hog",),
    "windows.max_windows": 400,
    "train.C": (1.0, 10.0, 100.0),
}
"""Settings that take the embedded digits through all stages in a minute or two."""
PHOTOS: dict[str, Any] = {"data.name": "plates", "features.extractors": ("efficientnet_lite0",)}
"""Settings of the demo on a drawn product, whose pictures lie beside the run."""


def run_verb(options: Mapping[str, Any], *stages: str, **defaults: Any) -> Outcome:
    """Run some stages with the options of a verb; `defaults` are settings that the options may override."""
    from ..stages.registry import run_stages

    check_device(options.get("device", "auto"))
    return run_stages(options, stages, defaults | setting_values(options))


@add_verb("run")
def run(options: dict[str, Any]) -> Outcome | None:
    """From pictures to detectors, detections, figures and a page.

    Example: lapsvm run --data folder --root pictures --out RUN
    """
    return run_verb(options, *ALL_STAGES)


@add_verb("extract")
def extract(options: dict[str, Any]) -> Outcome | None:
    """Stage 1: propose windows and store their features.

    Example: lapsvm extract --data voc --root VOC2007 --classes bus,car --extractor onnx:net.onnx --out RUN
    """
    return run_verb(options, "extract")


@add_verb("import")
def import_(options: dict[str, Any]) -> Outcome | None:
    """Stage 1 from files of other programs: their windows and features become a run's.

    Example: lapsvm import rcnn_cache --data voc --root VOC2007 --out RUN
    """
    return run_verb(options, "import")


@add_verb("train")
def train(options: dict[str, Any]) -> Outcome | None:
    """Stage 2: learn one detector per class from image-level labels.

    Example: lapsvm train --out RUN --loss ap --C 1,10,100
    """
    return run_verb(options, "train")


@add_verb("tune")
def tune(options: dict[str, Any]) -> Outcome | None:
    """Stage 2 with a larger grid of C, and of J for latent_svm: reports how every candidate did.

    Example: lapsvm tune --out RUN --C 0.01,0.1,1,10,100 --folds 5
    """
    from ..run.folder import RunFolder
    from ..stages.tune import thesis_grids

    settings = RunFolder(options["out"]).require_settings("tune").with_values(setting_values(options))
    return run_verb(options, "tune", **thesis_grids(settings.train.learner))


@add_verb("refine")
def refine(options: dict[str, Any]) -> Outcome | None:
    """Stage 3, optional: self-training, in which detectors learn to separate objects from their surroundings.

    Example: lapsvm refine --out RUN --refine 2
    """
    return run_verb(options, "refine")


@add_verb("detect")
def detect(options: dict[str, Any]) -> Outcome | None:
    """Stage 4: score all windows, suppress overlaps, write result files.

    Example: lapsvm detect --out RUN --nms 0.3
    """
    return run_verb(options, "detect")


@add_verb("report")
def report(options: dict[str, Any]) -> Outcome | None:
    """Stage 6: the page RUN/page/index.html, and with --card RUN/card.md.

    Example: lapsvm report --out RUN
    """
    return run_verb(options, "report")


@add_verb("demo", *panel(
    "Data",
    Option("photos", "--photos", bool, "Drawn photographs of a product with defects, and the network of the extra "
           "photos, in place of digits.", default=False),
))  # fmt: skip
def demo(options: dict[str, Any]) -> Outcome | None:
    """Embedded data, all stages, a table and a page; nothing is downloaded.

    Example: lapsvm demo --out demo-run
    """
    out = options["out"].resolve()
    if options.pop("photos"):
        return run_verb(options, *ALL_STAGES, **PHOTOS, **{"data.root": str(out.with_name(f"{out.name}-pictures"))})
    return run_verb(options, *ALL_STAGES, **DEMO, **{"data.root": str(out / "data")})
