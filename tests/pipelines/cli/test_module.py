"""``python -m lapsvm`` is the command."""

import subprocess
import sys


def test_the_module_is_the_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "lapsvm", "export", "--no-such-option"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("lapsvm: ")
    assert done.stderr.count("\n") == 1
