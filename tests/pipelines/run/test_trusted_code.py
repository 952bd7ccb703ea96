"""A file from a stranger runs no code: neither a run folder, nor a recipe, nor a model; what the user names does."""

import shutil
import sys
from dataclasses import replace

import pytest
import supervision
from lapsvm.pipelines.commands import stages
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.detection import Detector
from lapsvm.errors import SettingsError
from lapsvm.features.extractors.extractor import open_sized_extractor
from lapsvm.features.extractors.specs import TRUSTED, check_trusted
from lapsvm.settings import NetworkSettings

RUNS = "strange_nets.deep"
SPEC = f"torch:{RUNS}:make"


@pytest.fixture(autouse=True)
def ran(tmp_path, monkeypatch):
    """The file that a stranger's module leaves if it is imported."""
    package = tmp_path / "path" / "strange_nets"
    package.mkdir(parents=True)
    mark = tmp_path / "RAN"
    (package / "__init__.py").write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n")
    (package / "deep.py").write_text("def make():\n    return 3\n")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delenv(TRUSTED, raising=False)
    yield mark
    for name in ("strange_nets", RUNS):
        sys.modules.pop(name, None)


@pytest.fixture
def strange(run_copy):
    """A run folder whose settings name somebody's factory."""
    run = RunFolder(run_copy)
    run.save_settings(run.settings().with_values({"features.extractors": (SPEC,)}), ["lapsvm"])
    for path in run.models.iterdir():
        _describe_by_file(path)
    return run_copy


def _describe_by_file(path):
    """Have a model's features come from a network that only its run folder names."""
    model = Detector.load(path)
    shards = {**model.provenance["shards"]}
    shards["features"] = {**shards["features"], "extractor": {"kind": "pooled-network", "network": RUNS}}
    replace(model, provenance={**model.provenance, "shards": shards}).save(path)


@pytest.fixture
def picture(digits):
    """A picture of the data set."""
    return next((digits / "JPEGImages").iterdir())


def check_refused(line, ran):
    """Check that a line says what would be run, and both ways to allow it; nothing was run."""
    assert f"extractor '{SPEC}' comes from a file and runs code of module '{RUNS}'" in line
    assert "--extractor names it now" in line
    assert f"the environment variable {TRUSTED} lists '{RUNS}'" in line
    assert not ran.exists()


def test_a_run_folder_runs_no_code_in_prediction(strange, picture, refused, ran):
    check_refused(refused("predict", "--model", strange / "models" / "six.safetensors", picture), ran)


@pytest.mark.parametrize("verb", ["extract", "run"])
def test_a_run_folder_runs_no_code_in_extraction(strange, refused, ran, made, verb):
    before = (strange / "run.toml").read_bytes()
    check_refused(refused(verb, "--out", strange), ran)
    assert (strange / "run.toml").read_bytes() == before


@pytest.mark.parametrize("verb", ["extract", "run"])
def test_a_recipe_runs_no_code(digits, tmp_path, refused, ran, verb):
    (tmp_path / "theirs.toml").write_text(f"[features]\nextractors = ['hog', '{SPEC}']\n")
    arguments = ["--data", "voc", "--root", digits, "--out", tmp_path / "NEW", "--recipe", tmp_path / "theirs.toml"]
    check_refused(refused(verb, *arguments), ran)
    assert not (tmp_path / "NEW").exists()


def test_a_protocol_on_a_run_folder_runs_no_code(strange, tmp_path, capsys, ran):
    with pytest.raises(SystemExit) as exit_:
        supervision.main(["--shards-from", str(strange), "--out", str(tmp_path / "P"), "--shares", "0"])
    assert exit_.value.code == 2
    check_refused(capsys.readouterr().err, ran)


def test_a_model_runs_no_code(run_copy, picture, command, ran):
    path = run_copy / "models" / "six.safetensors"
    model = Detector.load(path)
    networks = {**model.provenance["shards"]["features"]["networks"], "extractors": [SPEC]}
    shards = {**model.provenance["shards"]}
    shards["features"] = {**shards["features"], "networks": networks}
    replace(model, provenance={**model.provenance, "shards": shards}).save(path)
    assert command("predict", "--model", path, picture).status == 0
    assert not ran.exists()


@pytest.mark.parametrize("listed", [RUNS, "strange_nets", " other , strange_nets "])
def test_a_module_on_the_users_list_is_run(strange, refused, monkeypatch, ran, listed):
    pytest.importorskip("torch")
    monkeypatch.setenv(TRUSTED, listed)
    assert f"factory {RUNS}:make must give a torch.nn.Module" in refused("extract", "--out", strange)
    assert ran.exists()


@pytest.mark.parametrize("listed", ["", ",", "strange", "strange_nets.deeper", "deep", "strange_nets.deep:make", "*"])
def test_a_list_holds_modules_and_packages_by_their_names_alone(listed, monkeypatch):
    monkeypatch.setenv(TRUSTED, listed)
    with pytest.raises(SettingsError, match="comes from a file"):
        check_trusted([SPEC], [])


def test_what_the_command_line_names_is_run_whatever_its_options(strange, refused, ran, picture):
    pytest.importorskip("torch")
    for arguments in (["extract", "--out", strange], ["predict", "--model", strange / "models", picture]):
        line = refused(*arguments, "--extractor", f"{SPEC}?size=64")
        assert f"factory {RUNS}:make must give a torch.nn.Module" in line
    line = refused("extract", "--out", strange, f"--set=features.extractors={SPEC}?size=64")
    assert f"factory {RUNS}:make must give a torch.nn.Module" in line
    assert ran.exists()


@pytest.mark.parametrize("named", [["hog"], ["torch:strange_nets.deep:other"], []])
def test_another_factory_on_the_command_line_allows_nothing(named, ran):
    with pytest.raises(SettingsError, match="comes from a file"):
        open_sized_extractor(("hog", SPEC), NetworkSettings(), named=named)
    assert not ran.exists()


def test_extractors_that_run_no_code_need_no_leave():
    check_trusted(["hog", "onnx:net.onnx"], [])


@pytest.mark.parametrize("status", ["", "0", "3"])
def test_code_that_ends_the_program_is_no_success(digits, tmp_path, refused, ran, status):
    pytest.importorskip("torch")
    (ran.parent / "path" / "strange_nets" / "deep.py").write_text(f"import sys\ndef make():\n    sys.exit({status})\n")
    line = refused("run", "--data", "voc", "--root", digits, "--out", tmp_path / "NEW", "--extractor", SPEC)
    assert f"its code ended with SystemExit({status or None})." in line


@pytest.mark.parametrize("status", [None, 0, 1])
def test_a_command_that_somebodys_code_ends_is_a_failure(run_copy, refused, monkeypatch, status):
    def quits(*_):
        raise SystemExit(status)

    monkeypatch.setattr(stages, "run_verb", quits)
    assert f"ended the command with SystemExit({status!r})" in refused("report", "--out", run_copy)


def test_a_folder_under_another_name_is_still_refused(strange, tmp_path, picture, refused, ran):
    copied = shutil.copytree(strange, tmp_path / "COPIED")
    check_refused(refused("predict", "--model", copied / "models", picture), ran)
