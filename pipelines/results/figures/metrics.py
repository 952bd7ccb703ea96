"""The option --metrics: which figures evaluation computes."""

from importlib.util import find_spec

from lapsvm.errors import DependencyError, OptionError, install_extra

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
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in METRICS:
            raise OptionError(f"option --metrics must be of {', '.join(METRICS)}, got {name!r}.")
    if "coco" in names:
        check_evaluator()
    return names


def check_evaluator() -> None:
    """Raise DependencyError unless COCO's evaluator is installed."""
    try:
        missing = find_spec("faster_coco_eval") is None
    except ValueError:  # sys.modules holds None for it
        missing = True
    if missing:
        raise DependencyError(f"COCO's figures need faster-coco-eval: {install_extra('coco')}.")
