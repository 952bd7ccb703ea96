"""Recipes: settings that belong together, by name or from a file."""

from pathlib import Path
from typing import Any

from lapsvm.errors import MissingError, OptionError

from .settings import Settings

PLAIN: dict[str, Any] = {
    "windows.max_windows": 2000,
    "windows.max_area": 1.0,
    "features.pca": 0.0,
    "features.contrast": 0.0,
    "features.beside": False,
    "features.sizes": (),
    "train.learner": "latent_rank_svm",
    "train.loss": "ap",
    "train.C": (0.1, 1.0, 10.0, 100.0),
    "train.margin": 0.0,
    "train.top": 1.0,
    "train.tol": 0.001,
    "train.candidates": 20,
    "refine.rounds": 0,
    "detect.demotion": 0.0,
    "detect.vote": 0.0,
}
"""The papers' latent AP-SVM: every window's own features, one window for a positive picture."""

BEST: dict[str, Any] = PLAIN | {
    "windows.max_windows": 1000,
    "windows.max_area": 0.9,
    "features.pca": 512.0,
    "features.contrast": 0.5,
    "features.beside": True,
    "features.sizes": (640, 960),
    "train.C": (0.3, 1.0, 3.0, 10.0),
    "train.margin": 0.05,
    "train.top": 20.0,
    "train.tol": 0.01,
    "train.candidates": 0,
    "refine.rounds": 1,
    "refine.C": 10.0,
    "refine.top": 20.0,
    "refine.average": True,
    "refine.far": 0.4,
    "refine.apart": 0.1,
    "refine.candidates": 300,
    "detect.demotion": 1.0,
    "detect.vote": 0.7,
}
"""What measured best on photographs, see docs/measurements/results.md."""

RECIPES = {"plain": PLAIN, "best": BEST}
AUTO = "auto"  # best where features come from a network, else plain; see `automatic`


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
