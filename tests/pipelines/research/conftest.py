"""Commands of `benchmarks/` as modules, and the tables that they print."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from ..calls import status_of
from .pages import BENCHMARKS, assert_one_table_changed, page_of, rows_of


@pytest.fixture
def script(monkeypatch):
    """Load a command by its name, with some of its constants changed."""

    def load(name, **constants):
        path = BENCHMARKS / name
        monkeypatch.syspath_prepend(path.parent)
        spec = spec_from_file_location(f"command_{path.stem}", path)
        module = module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        for constant, value in constants.items():
            monkeypatch.setattr(module, constant, value)
        return module

    return load


@pytest.fixture
def rows(capsys, tmp_path):
    """Run a loaded command; return the cells of the tables' rows, by their first one.

    A command that takes --into gets a copy of its page.
    """

    def said(module, *words):
        capsys.readouterr()
        status = status_of(module.main, *words)
        text = capsys.readouterr()
        assert status == 0, text.err
        return text.out

    def run(module, *words):
        work = [word for word in words[:1] if str(word) in vars(module)]  # of several in a command
        if "--into" not in said(module, *work, "--help"):
            return rows_of(said(module, *words))
        copy, page = tmp_path / "page.md", page_of(Path(module.__file__))
        copy.write_bytes(page.read_bytes())
        printed = said(module, *work, "--into", copy, *words[len(work) :])
        assert_one_table_changed(page, copy, printed)
        return rows_of(printed)

    return run


@pytest.fixture(scope="module")
def siblings(request):
    """Return name -> module of the commands that a test file needs: its FOLDER of `benchmarks/`, and its MODULES."""
    folder, names = str(BENCHMARKS / request.module.FOLDER), request.module.MODULES
    sys.path.insert(0, folder)
    try:
        yield {name: __import__(name) for name in names}
    finally:
        sys.path.remove(folder)
        for name in names:
            sys.modules.pop(name, None)
