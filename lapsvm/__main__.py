"""``python -m lapsvm`` is the command ``lapsvm``."""

from runpy import run_module

if __name__ == "__main__":
    run_module("lapsvm.pipelines", run_name="__main__")  # by name: the library imports no room
