"""A command that is refused leaves every byte of the run folder as it was."""

import pytest

REFINEMENT = ["--refine", "1", "--set=refine.C=10"]


def content(folder):
    """Return every file, folder and link of a folder, with what it holds."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else path.is_dir()
        for path in folder.rglob("*")
    }


def flip(path):
    """Change the last bit of a file."""
    held = bytearray(path.read_bytes())
    held[-1] ^= 1
    path.write_bytes(bytes(held))


RUN = ["run", "--data", "voc", "--root", "{digits}"]
REFUSED = [
    [*RUN, "--C", "2"],
    [*RUN, "--C", "2", "--set=detect.box_voting=8"],
    [*RUN, "--loss", "ndcg"],
    [*RUN, "--learner", "latent_svm", "--J", "1"],
    [*RUN, "--folds", "500", "--redo"],
    [*RUN, "--max-windows", "50"],
    [*RUN, "--set=features.dtype=float32"],
    [*RUN, "--pca", "8", "--quiet"],
    [*RUN, "--seed", "5"],
    [*RUN, "--classes", "zebra"],
    [*RUN, "--recipe", "best", "--quiet"],
    [*RUN, "--shards-from", "{nosuch}"],
    [*RUN, "--extractor", "onnx:{nosuch}"],
    [*RUN, "--train-set", "val"],
    [*RUN, "--nms", "2"],
    [*RUN, "--memory", "much"],
    ["extract", "--recipe", "{recipe}"],
    ["extract", "--max-windows", "50"],
    ["extract", "--windows", "magic", "--redo"],
    ["extract", "--extractor", "onnx:{nosuch}", "--redo"],
    ["import", "{nosuch}"],
    ["import", "{nosuch}", "--redo"],
    ["train", "--C", "2"],
    ["train", "--C", "1,10", "--folds", "500", "--redo"],
    ["train", "--executor", "spark", "--redo"],
    ["tune", "--C", "3"],
    ["tune", "--C", "3,4"],
    ["tune", "--C", "3,4", "--folds", "500", "--redo"],
    ["refine", "--refine", "1", "--set=refine.C=0"],
    ["detect", "--nms", "2"],
    ["detect", "--set=detect.box_voting=-1"],
    ["detect", "--recipe", "nosuch"],
    ["report", "--redo"],
    ["evaluate", "--iou", "0.7"],
    ["verify", "--device", "cpu"],
]


TOLD = {
    "--C 2": "training.C [1.0, 10.0] instead of [2.0]",
    "--loss ndcg": "training.loss 'ap' instead of 'ndcg'",
    "--max-windows 50": "max_windows 60 instead of 50",
    "{digits} --set=features.dtype=float32": "'float16' instead of 'float32'",
}
"""The last two words of a refused command -> words of its sentence."""


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda arguments: " ".join(arguments)[:60])
def test_a_refused_command_changes_no_byte(finished, digits, tmp_path, refused, arguments):
    recipe = tmp_path / "other.toml"
    recipe.write_text('[train]\nloss = "ndcg"\n')
    before = content(finished)
    named = {"digits": digits, "nosuch": tmp_path / "nosuch", "recipe": recipe}
    said = refused(arguments[0], *(one.format(**named) for one in arguments[1:]), "--out", finished)
    assert TOLD.get(" ".join(arguments[-2:]), "") in said
    assert content(finished) == before


@pytest.mark.parametrize(
    "arguments",
    [
        [*RUN, "--refine", "2"],
        [*RUN, "--refine", "0"],
        [*RUN, "--set=refine.C=11"],
        ["refine", "--refine", "2"],
        ["train", "--C", "2"],
        ["extract", "--recipe", "{recipe}"],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_a_refused_command_changes_no_byte_of_a_refined_run(refined, digits, tmp_path, refused, arguments):
    recipe, before = tmp_path / "other.toml", content(refined)
    recipe.write_text("[refine]\nrounds = 3\n")
    refused(arguments[0], *(one.format(digits=digits, recipe=recipe) for one in arguments[1:]), "--out", refined)
    assert content(refined) == before


@pytest.mark.parametrize(
    ("damaged", "arguments"),
    [
        ("shards/trainval/0000002.safetensors", ["train", "--C", "1,10", "--redo"]),
        ("shards/trainval/0000002.safetensors", ["refine", *REFINEMENT]),
        ("shards/test/0000001.safetensors", ["detect", "--nms", "0.5"]),
        ("models/six.safetensors", ["detect", "--set=detect.box_voting=8"]),
        ("models/six.safetensors", ["report"]),
        ("run.toml", ["detect", "--set=detect.box_voting=8"]),
    ],
)
def test_damage_that_stops_a_stage_is_found_before_it_writes(run_copy, refused, damaged, arguments):
    flip(run_copy / damaged)
    if damaged == "run.toml":
        (run_copy / damaged).write_text("[data\n")
    before = content(run_copy)
    said = refused(*arguments, "--out", run_copy)
    assert not damaged.startswith("shards") or str(run_copy / damaged) in said
    assert arguments[0] != "train" or "or import, again to have just this one made anew" in said
    assert content(run_copy) == before


def test_a_command_refused_in_a_new_folder_leaves_none(digits, tmp_path, refused, fast):
    line = ["run", "--data", "voc", "--root", digits, "--out", tmp_path / "a" / "RUN", *fast]
    refused(*line, "--extractor", f"onnx:{tmp_path / 'nosuch'}")
    assert list(tmp_path.iterdir()) == []


def test_a_later_stage_takes_of_a_recipe_what_is_its_own(run_copy, command):
    from lapsvm.pipelines.run.folder import RunFolder

    before = RunFolder(run_copy).settings()
    assert command("detect", "--out", run_copy, "--recipe", "best", "--quiet").status == 0
    after = RunFolder(run_copy).settings()
    assert (after.data, after.windows, after.features, after.train, after.refine) == (
        before.data, before.windows, before.features, before.train, before.refine,
    )  # fmt: skip
    assert (after.detect.box_voting, after.detect.demotion) == (0.7, 1.0)
