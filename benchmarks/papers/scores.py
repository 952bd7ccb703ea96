"""Made scores of one ranking, and the peak of a call's memory; for commands of several folders."""

import subprocess
import sys
from pathlib import Path

import numpy as np


def example(n_pos: int, n_neg: int, shift: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores, positives shifted, in random order; labels are int8."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(n_pos + n_neg, dtype=np.int8)
    labels[rng.choice(n_pos + n_neg, n_pos, replace=False)] = 1
    return rng.standard_normal(n_pos + n_neg) + shift * labels, labels


def peak_memory(prepare: str, call: str, *arguments: str) -> float:
    """Return the extra memory in bytes, at its peak, of a call in a process of its own; both are lines of Python."""
    program = f"""
import re, sys, numpy as np
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
def status(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read()).group(1))
{prepare}
open("/proc/self/clear_refs", "w").write("5")  # the peak starts from here
before = status("VmRSS")
{call}
print(status("VmHWM") - before)
"""
    command = [sys.executable, "-c", program, *arguments]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
