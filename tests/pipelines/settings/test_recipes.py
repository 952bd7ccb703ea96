"""Recipes: settings by name or from a file, under the options of the command line."""

import pytest
from lapsvm.pipelines.settings.checks import check_settings
from lapsvm.pipelines.settings.recipes import RECIPES, recipe_values
from lapsvm.pipelines.settings.settings import Settings

from lapsvm.detection import Detector


@pytest.mark.parametrize("name", RECIPES)
def test_shipped_recipes_are_settings_that_keep_their_rules(name):
    settings = Settings().with_values(recipe_values(name))
    check_settings(settings)
    assert set(RECIPES[name]) <= set(settings.flat())


def test_the_plain_recipe_is_what_a_run_without_one_does():
    assert Settings().with_values(recipe_values("plain")) == Settings()


def test_a_run_takes_a_shipped_recipe_and_options_win(digits, fast, command, tmp_path):
    options = [*fast, "--recipe", "best", "--refine", "1", "--pca", "30", "--quiet"]
    said = command("run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *options)
    assert (said.status, said.err) == (0, "")
    settings = Settings.read(tmp_path / "RUN" / "run.toml")
    assert (settings.refine.rounds, settings.features.pca, settings.windows.max_windows) == (1, 30, 60)
    assert (settings.train.top, settings.windows.max_area, settings.features.sizes) == (20.0, 0.9, (640, 960))
    training = Detector.load(tmp_path / "RUN" / "models" / "six.safetensors").provenance["training"]
    assert training["refine"]["C"] == Settings().refine.C


def test_a_recipe_may_be_a_file(digits, fast_extraction, command, tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[windows]\nmax_area = 0.5\n[train]\nloss = "ndcg"\n')
    said = command("extract", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *fast_extraction, "--quiet",
                   "--recipe", recipe)  # fmt: skip
    assert said.status == 0
    settings = Settings.read(tmp_path / "RUN" / "run.toml")
    assert (settings.windows.max_area, settings.train.loss) == (0.5, "ndcg")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("mine.toml", "[windows\n", "is not valid TOML"),
        ("mine.toml", "[windows]\nmax_aera = 0.5\n", "mine.toml is not known."),
        ("better", None, "option --recipe must be auto, plain, best or a file *.toml, got 'better'."),
        ("none.toml", None, "recipe none.toml is not there."),
    ],
)
def test_what_is_no_recipe_is_refused(digits, command, tmp_path, monkeypatch, name, content, sentence):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_text(content)
    said = command("run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", "--recipe", name)
    assert (said.status, sentence in said.err) == (2, True)
