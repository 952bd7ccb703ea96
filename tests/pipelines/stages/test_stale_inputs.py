"""A stage refuses what earlier stages made with other settings than the run has now, and says what mends it."""

import re
import shutil

import pytest

REFINEMENT = ["--refine", "1", "--set=refine.C=10"]
LATER = ("train", "refine", "detect", "evaluate", "report", "export")
RIGHT = {
    "refine": ("models/*.safetensors",),
    "detect": ("detections/*/*.txt",),
    "evaluate": ("evaluation.json",),
    "export": ("detections/*/*.txt",),
}
"""Stage -> the files that must be those of a fresh run if it does not refuse; the page has its times."""
MADE = ("models/*.safetensors", "first/*.safetensors", "detections/*/*", "evaluation.json")


def words(verb, out, tmp_path):
    """Return the command line of a stage on a run, quiet."""
    more = ["--to", tmp_path / "exported", "--format", "coco"] if verb == "export" else []
    return [verb, "--out", out, "--quiet", *more]


def mend(command, out, tmp_path, verb):
    """Run a stage, and before it whatever its refusals name; return the commands that they named."""
    named = []
    for _ in range(8):
        result = command(*words(verb, out, tmp_path))
        if result.status == 0:
            return named
        assert result.status == 2, result
        advice = re.search(r"; run lapsvm (\w+)((?: --redo)?) first\.\n$", result.err)
        assert advice is not None, result.err
        line = [advice[1], "--out", out, "--quiet", *advice[2].split()]
        named.append(" ".join([advice[1], *advice[2].split()]))
        done = command(*line)
        assert done.status == 0 or re.search(r"; run lapsvm .* first\.\n$", done.err), done
        if done.status:  # the stage that mends it asks the same of its own input
            named += mend(command, out, tmp_path, advice[1])
    raise AssertionError(named)


CHANGES = {
    "other windows": ["extract", "--redo", "--max-windows", "40"],
    "another constant": ["train", "--redo", "--C", "5"],
    "no refinement": ["train", "--redo", "--recipe", "plain", "--C", "1"],
    "other refinement": ["refine", "--redo", "--set=refine.C=3"],
}
REFINED_ANEW = "[train]\nC = [3.0]\n[refine]\nrounds = 1\nC = 10.0\n"


def check(command, made, out, digits, tmp_path, change):
    """Redo a stage with other settings: each later one refuses or is right, and its advice leads to a fresh run's."""
    assert command(*change, "--out", out, "--quiet").status == 0
    settings = tmp_path / "settings.toml"
    shutil.copy(out / "run.toml", settings)
    fresh = tmp_path / "fresh"
    line = ["run", "--data", "voc", "--root", digits, "--out", fresh, "--quiet", "--recipe", settings]
    assert command(*line).status == 0
    for verb in LATER:
        own = shutil.copytree(out, tmp_path / f"own-{verb}")
        result = command(*words(verb, own, tmp_path))
        if result.status:
            assert result.err.count("\n") == 1, result.err
            assert "run lapsvm " in result.err or "--redo" in result.err, result.err
            continue
        right = RIGHT.get(verb, ())
        assert {**made(fresh), **(made(own, *right) if right else {})} == made(fresh), verb
    mend(command, out, tmp_path, "evaluate")
    assert made(out, MADE[0], *MADE[2:]) == made(fresh, MADE[0], *MADE[2:])
    assert command(*words("report", out, tmp_path)).status == 0


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_after_a_change_of_a_refined_run(refined, digits, tmp_path, command, made, change):
    check(command, made, shutil.copytree(refined, tmp_path / "RUN"), digits, tmp_path, change)


def test_after_refinement_is_added(run_copy, digits, tmp_path, command, made):
    recipe = tmp_path / "refined.toml"
    recipe.write_text(REFINED_ANEW)
    check(command, made, run_copy, digits, tmp_path, ["train", "--redo", "--recipe", recipe])


def test_refinement_does_not_begin_with_older_first_models(refined, tmp_path, command, made):
    """Those of another training may lie in the folder of first models."""
    out = shutil.copytree(refined, tmp_path / "RUN")
    assert command("train", "--out", out, "--redo", "--recipe", "plain", "--C", "5", "--quiet").status == 0
    other = shutil.copytree(out, tmp_path / "OTHER")
    shutil.rmtree(other / "first")
    for run in (out, other):
        assert command("refine", "--out", run, "--quiet", *REFINEMENT).status == 0
    assert made(out, *MADE[:2]) == made(other, *MADE[:2])


def test_an_extraction_that_did_not_end_is_no_input(run_copy, refused):
    sorted((run_copy / "shards" / "test").glob("*.safetensors"))[-1].unlink()
    said = refused("detect", "--out", run_copy)
    assert "needs shards of all pictures of set 'test'" in said
    assert said.endswith("; run lapsvm extract first.\n")


def test_edited_settings_of_windows_are_found(run_copy, refused):
    settings = run_copy / "run.toml"
    settings.write_text(settings.read_text().replace("max_windows = 60", "max_windows = 50"))
    assert "was made with windows.max_windows" in refused("detect", "--out", run_copy)


def test_detections_that_were_edited_are_not_evaluated(run_copy, refused):
    path = run_copy / "detections" / "test" / "comp3_det_test_six.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    for verb in ("evaluate", "report"):
        assert "run lapsvm detect first." in refused(verb, "--out", run_copy)
