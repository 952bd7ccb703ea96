"""Nothing is imported or called that only POSIX systems have: the whole way works with all of it hidden.

Windows itself differs in more, such as files that are open and so cannot be renamed over; that was not tried.
"""

import subprocess
import sys

HIDE = """
import os, signal, sys
from importlib import import_module
from contextlib import suppress

OTHERS = "click cv2 dask distributed http.server jinja2 multiprocessing.resource_tracker numpy onnx onnxruntime \
    PIL.Image rich.console scipy.optimize scipy.stats sklearn.linear_model torch webbrowser".split()
for name in OTHERS:  # what others look for is their own matter
    with suppress(ModuleNotFoundError):
        import_module(name)

MODULES = ["fcntl", "grp", "posix", "pwd", "readline", "resource", "syslog", "termios", "tty", "pty"]
NAMES = ["O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "SEEK_HOLE", "chown", "fchmod", "fork",
         "geteuid", "getgid", "getuid", "mkfifo", "pread", "pwrite", "sched_getaffinity", "sync", "sysconf"]
sys.modules.update(dict.fromkeys(MODULES))
for name in NAMES:
    delattr(os, name)
for name in ("SIGHUP", "SIGALRM", "SIGKILL", "SIGUSR1", "pthread_sigmask", "alarm"):
    delattr(signal, name)
"""

IMPORT_ALL = """
import importlib, pkgutil
import lapsvm

OPTIONAL = {"dask", "distributed", "onnx", "onnxruntime", "torch", "triton", "faster_coco_eval", "matplotlib"}
for module in pkgutil.walk_packages(lapsvm.__path__, "lapsvm."):
    try:
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in OPTIONAL:
            raise
"""

RUN = """
import sys
from pathlib import Path
from lapsvm.datasets.digits import write_digits
from lapsvm.pipelines.commands.verbs import main

write_digits(Path("digits"), seed=3, n_train=10, n_test=10)
FAST = "--windows grid --max-windows 12 --classes six,three --C 1 --folds 2 --extractor hog --quiet"
for line in (f"run --data voc --root digits --out RUN {FAST}", "verify --out RUN",
             "predict --model RUN digits/JPEGImages/000001.jpg", "export --out RUN --format coco --to coco"):
    try:
        main(line.split())
    except SystemExit as end:
        assert end.code == 0, (line, end.code)
print("done")
"""


def python(code, folder):
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_is_imported_without_posix(tmp_path):
    python(HIDE + IMPORT_ALL, tmp_path)


def test_a_run_needs_nothing_of_posix(tmp_path):
    assert python(HIDE + RUN, tmp_path).endswith("done\n")
