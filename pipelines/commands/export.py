"""`lapsvm export`: boxes of a run as annotations of another program, or its detector as one file."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lapsvm.annotations.table import FORMATS
from lapsvm.errors import OptionError

from ..cli.answer import Outcome
from ..cli.parameters import add_verb
from ..settings.option import REQUIRED, Option
from ..settings.options import RUN_FOLDER, panel

_OF_ANNOTATIONS = ("threshold", "per_class", "labelled_only", "copy")
_WITH_PICTURES = [name for name, kind in FORMATS.items() if kind.with_pictures]
_OF_ONNX = ("inputs", "precision", "no_comparison")


@add_verb("export", *panel(
    "Export",
    RUN_FOLDER,
    Option("to", "--to", Path, "The folder to write, empty or not there; a new file *.onnx for onnx.",
           default=REQUIRED),
    Option("format_name", "--format", str, f"{', '.join(FORMATS)} or onnx.", default=REQUIRED),
    Option("set_name", "--set", str, "The set; by default the test set, or the training set without one."),
    Option("threshold", "--threshold", float, "The least probability of a box."),
    Option("per_class", "--per-class", int, "The number of best boxes of each class."),
    Option("labelled_only", "--labelled-only", bool, "Only classes that the picture is labelled with.", default=False),
    Option("copy", "--copy", bool, f"Copy the pictures ({', '.join(_WITH_PICTURES)}); otherwise link them.",
           default=False),
    Option("inputs", "--inputs", str, "What the file of onnx takes: picture (the default), or all, which are windows "
           "and thresholds too.", rule=("picture", "all")),
    Option("precision", "--precision", str, "How the network in the file of onnx computes: float32 (the default) or "
           "int8, which is faster and smaller.", rule=("float32", "int8")),
    Option("no_comparison", "--no-comparison", bool, "Write the file of onnx without comparing it with the run, which "
           "takes minutes.", default=False),
))  # fmt: skip
def export(options: dict[str, Any]) -> Outcome:
    """Boxes of a run as annotations of another program; by default each labelled class's best box in a picture.

    The format onnx writes the detector itself as one file.

    Example: lapsvm export --out RUN --to yolo-data --format yolo --set trainval
    """
    if options["format_name"] == "onnx":
        _refuse(_OF_ANNOTATIONS, options, "chooses boxes of annotations; the format onnx writes the detector itself")
        from .exporting.onnx_detector import export_detector

        return export_detector(options)
    _refuse(_OF_ONNX, options, f"is for the format onnx, got the format {options['format_name']}")
    from .exporting.annotations import export_run

    return export_run(options)


def _refuse(names: Iterable[str], options: Mapping[str, Any], reason: str) -> None:
    """Raise OptionError if one of these options is given, which means nothing for the format."""
    for name in names:
        if options[name] not in (None, False):
            raise OptionError(f"option --{name.replace('_', '-')} {reason}.")
