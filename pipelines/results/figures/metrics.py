"""The option --metrics: which figures evaluation computes."""

from importlib.util import find_spec

from lapsvm.errors import DependencyError, install_extra

from ...cli.parsing import split_names

METRICS = ("voc", "coco")


def chosen_metrics(text: str) -> tuple[str, ...]:
    """Return the names of a comma list, checked before any work is done.

    Raises
    ------
    OptionError
        If a name is not known.
    DependencyError
        If COCO's evaluator is not installed.
    """
    names = tuple(split_names("option --metrics", text, METRICS))
    if "coco" in names and not _is_installed("faster_coco_eval"):
        raise DependencyError(f"COCO's figures need faster-coco-eval: {install_extra('coco')}.")
    return names


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # sys.modules holds None for it
        return False
