"""Recipes: settings that belong together, by name or from a file, and the choice for ``auto``.

``--extractor auto``, ``--recipe auto`` and ``--objectness auto`` are the default where a run begins. A run folder
records what they became, and later stages keep to that.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lapsvm.errors import MissingError, OptionError
from lapsvm.features.extractors.efficientnet import KIND, photos_installed
from lapsvm.features.extractors.efficientnet.extractor import INSTALL
from lapsvm.features.extractors.specs import parse_spec
from lapsvm.objectness import saliency_installed
from lapsvm.objectness.u2netp import KIND as U2NETP
from lapsvm.objectness.u2netp import LAST_PYTHON
from lapsvm.settings import AUTO, IMPORTED, NO_SOURCE

from .settings import Settings

BEST: dict[str, Any] = {
    "windows.method": "mixed",
    "windows.max_windows": 1000,
    "windows.max_area": 0.9,
    "features.pca": 512.0,
    "features.contrast": 0.5,
    "features.store_context": True,
    "features.sizes": (640, 960),
    "train.C": (1.0,),
    "train.top": 20.0,
    "train.tol": 0.01,
    "train.candidates": 0,
    "refine.rounds": 2,
    "detect.demotion": 1.0,
    "detect.score_smoothing": 0.5,
    "detect.box_voting": 0.7,
}
"""What measured best on photographs, see docs/measurements/results.md."""

PLAIN = {name: Settings().flat()[name] for name in BEST}
"""The papers' latent AP-SVM, which the defaults are: every window's own features, one window for a positive picture."""

RECIPES = {"plain": PLAIN, "best": BEST}

HOG = "hog"
EXTRACTORS = "features.extractors"
WITHOUT_NETWORK = f"extractor: hog, which is weak on photographs; for the features of a network: {INSTALL}"

OBJECTNESS = "objectness.source"
WITHOUT_SALIENCY = f"objectness: none; for a network that marks what stands out, which refinement uses: {INSTALL}"
NO_PACKAGE = (
    "objectness: none, because no package brings a saliency network to this Python; refinement uses one from a file: "
    "--objectness onnx:FILE"
)

FOR_IMPORTED = (
    "recipe: plain; imported features take the parts of best that need no network (training, refinement, detection): "
    "lapsvm train --recipe best, then lapsvm refine and detect"
)


def recipe_values(name: str | None) -> dict[str, Any]:
    """Return dotted setting -> value of a recipe: a shipped one by its name, or a TOML file like run.toml.

    Raises
    ------
    OptionError
        If there is no such recipe.
    MissingError, SettingsError
        If the file is not there, or no TOML.
    """
    if name is None:
        return {}
    if name in RECIPES:
        return RECIPES[name]
    if not name.endswith(".toml"):
        raise OptionError(f"option --recipe must be {', '.join([AUTO, *RECIPES])} or a file *.toml, got {name!r}.")
    if not Path(name).is_file():
        raise MissingError(f"recipe {name} is not there.")
    values = Settings.values_in(Path(name))
    Settings().with_values(values, source=f"recipe {name}")
    return values


def resolved(
    recipe: str | None, stage: str, given: Mapping[str, Any], stored: Settings | None
) -> tuple[dict[str, Any], str]:
    """Return the settings of a verb with every ``auto`` resolved, and a line of advice.

    Parameters
    ----------
    recipe : str or None
        The option of the verb.
    stage : str
        The first stage that the verb runs.
    given : mapping
        Dotted settings that win over the recipe.
    stored : Settings or None
        Of the run folder; None if it has none yet.

    Returns
    -------
    values : dict of str to object
        Dotted settings, those given and those of the recipe.
    line : str
        Empty where nothing is missing.
    """
    begins, stored = stage == "extract" and stored is None, stored or Settings()
    recipe = recipe or (AUTO if begins else None)
    values = {**recipe_values(None if recipe == AUTO else recipe), **given}
    texts = values.get(EXTRACTORS, (AUTO,) if begins else ())
    line = ""
    if AUTO in texts:
        found, line = (KIND, "") if photos_installed() else (HOG, WITHOUT_NETWORK)
        values[EXTRACTORS] = tuple(found if text == AUTO else text for text in texts)
    if recipe == AUTO:
        line = line or (FOR_IMPORTED if stored.windows.method == IMPORTED else "")
        used = values.get(EXTRACTORS) or stored.features.extractors
        values = {**recipe_values("best" if from_network(used) else "plain"), **values}
    if values.get(OBJECTNESS, AUTO if begins else NO_SOURCE) == AUTO:
        values[OBJECTNESS], advice = _automatic_objectness(stored.with_values(values))
        line = line or advice
    return values, line


def _automatic_objectness(settings: Settings) -> tuple[str, str]:
    """Return the source for ``--objectness auto`` beside other settings, and a line if only a package is missing."""
    if not (settings.refine.rounds and from_network(settings.features.extractors)):
        return NO_SOURCE, ""
    if saliency_installed():
        return U2NETP, ""
    return NO_SOURCE, NO_PACKAGE if sys.version_info[:2] > LAST_PYTHON else WITHOUT_SALIENCY


def sizes_are_open(given: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether the sizes come from recipe best, and the user has `given` neither sizes nor a limit for them."""
    fixed = {"features.sizes", "windows.proposal_side", "windows.max_side"} & given.keys()
    return not fixed and values.get("features.sizes") == BEST["features.sizes"]


def windows_are_open(recipe: str | None, given: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Say whether the windows are those of recipe best, and neither a file nor a user has `given` what makes them."""
    of_recipe = "windows.method", "windows.max_windows"
    fixed = {*of_recipe, "windows.proposal_side"} & given.keys()
    is_ours = recipe in (None, AUTO, "best")
    return is_ours and not fixed and all(values.get(name) == BEST[name] for name in of_recipe)


def from_network(texts: tuple[str, ...]) -> bool:
    """Whether some features come from a network."""
    return any(parse_spec(text).kind not in (HOG, IMPORTED) for text in texts)
