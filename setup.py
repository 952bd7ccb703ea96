"""The one table of the build: which folder is which package, what is compiled, and how.

Everything else about the project (metadata, dependencies, tools) is in pyproject.toml.

``LAPSVM_SANITIZE=address,undefined`` (or ``thread``) compiles every kernel with these sanitizers of the compiler and
with bounds checks, None checks and checked division, in a build folder of its own, so that no slow kernel stays behind.

``LAPSVM_BUILD_JOBS``, by default the number of cores, is how many kernels are translated and compiled side by side.

``SOURCE_DATE_EPOCH``, seconds since 1970, is the time of everything in an archive: equal sources give equal bytes.
"""

import gzip
import io
import json
import os
import re
import shlex
import shutil
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

import Cython
import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.sdist import sdist

SANITIZE = os.environ.get("LAPSVM_SANITIZE", "")

# folder -> import name; a room's own sub-packages are found below it
ROOMS = {"datasets": "lapsvm.datasets", "pipelines": "lapsvm.pipelines"}

# kernel bodies: cython_ext/<stem>.pyx, with its code in cython_ext/<stem>.h, is compiled as lapsvm._ext.<stem>
KERNELS = {
    "ap_diminished": "c++",
    "bags": "c++",
    "scores": "c++",
    "boxes": "c",
    "voc_matching": "c",
    "hog": "c",
    "components": "c++",
    "counting": "c++",
    "coverage": "c++",
    "diminished": "c++",
    "float16": "c",
    "greedy": "c++",
    "grid": "c++",
    "inference": "c++",
    "interleaving": "c++",
    "optranks": "c++",
    "pooling": "c++",
    "simplex_qp": "c",
    "colour": "c",
    "grouping": "c++",
    "regions": "c++",
    "result_lines": "c++",
    "segmentation": "c++",
    "toppush": "c",
}

SHARED = ("compiler", "score_amx", "score_tiles", "widening")  # headers that headers of kernels include

# Cython's own code for arrays, once for all kernels; in each of them it would be two thirds of the time that they take
ARRAYS = "lapsvm._ext.cython_arrays"

DIRECTIVES = {
    "language_level": 3,
    "embedsignature": True,
    "boundscheck": bool(SANITIZE),
    "wraparound": False,
    "initializedcheck": bool(SANITIZE),
    "nonecheck": bool(SANITIZE),
    "allow_none_for_extension_args": False,
    "cdivision": not SANITIZE,
    "freethreading_compatible": True,
}

# no fused multiply-add where a compiler's default allows it: a kernel and its Python twin round alike everywhere
# no debug information in a release: Python's own flags ask for it, it takes compile time and names the build's folder
COMPILE_ARGS = [
    *(["-O1", "-g"] if SANITIZE else ["-O3", "-g0"]),
    "-ffp-contract=off",
    f"-ffile-prefix-map={Path.cwd()}=.",
]
# one file without a compiler's libraries beside it
LINK_ARGS = ["-static"] if sys.platform == "win32" else []
# the first finding ends the process, so that no test passes over it; UBSan would only print otherwise
SANITIZE_ARGS = [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"] if SANITIZE else []
TIME = "some minutes" if SANITIZE else "about 50 s of processor time"
ONLY_DESCRIBES = bool({"sdist", "egg_info", "dist_info"} & set(sys.argv))
BUILD_FOLDER = f"build/{SANITIZE.replace(',', '-') or 'release'}"


def check_compilers() -> None:
    """End with one sentence if a compiler is missing: otherwise the build would fail after minutes of other work."""
    for variable, language in (("CC", "C"), ("CXX", "C++")):
        words = shlex.split(os.environ.get(variable) or sysconfig.get_config_var(variable) or "")
        if words and shutil.which(words[0]) is None:
            sys.exit(
                f"lapsvm needs a {language} compiler to build its kernels, but {words[0]!r} is not there; install one, "
                f"such as g++ or clang++, or name it in the environment variable {variable}."
            )


def extension(stem: str, language: str) -> Extension:
    """Return the extension ``lapsvm._ext.<stem>``; its name is derived from its file, never typed twice."""
    return Extension(
        f"lapsvm._ext.{stem}",
        sources=[f"cython_ext/{stem}.pyx"],
        language=language,
        depends=[str(header) for header in Path("cython_ext").glob("*.h") if header.stem in (*SHARED, stem)],
        include_dirs=["cython_ext", np.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=[*COMPILE_ARGS, *SANITIZE_ARGS, *(["-std=c++17"] if language == "c++" else [])],
        extra_link_args=[*LINK_ARGS, *SANITIZE_ARGS],
    )


def arrays() -> Extension:
    """Return the extension whose source Cython itself writes: what it does with arrays, for all kernels."""
    return Extension(
        ARRAYS,
        sources=[f"cython_ext/{ARRAYS.rpartition('.')[2]}.c"],
        extra_compile_args=[*COMPILE_ARGS, *SANITIZE_ARGS],
        extra_link_args=[*LINK_ARGS, *SANITIZE_ARGS],
    )


def build_jobs() -> int:
    """Return how many kernels are built side by side; end with one sentence if the variable is no such number."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("LAPSVM_BUILD_JOBS") or str(cores)
    if not given.isdecimal() or int(given) == 0:
        sys.exit(f"LAPSVM_BUILD_JOBS must be a whole number from 1 on, not {given!r}.")
    return int(given)


def extensions(jobs: int) -> list[Extension]:
    """Return all kernels; Cython translates them unless nothing is compiled anyway."""
    kernels = [arrays(), *(extension(stem, language) for stem, language in sorted(KERNELS.items()))]
    if ONLY_DESCRIBES:
        return kernels
    print(f"lapsvm: Cython and the compiler build {len(KERNELS)} kernels, {jobs} at a time, in {TIME}", flush=True)
    translated = cythonize(
        kernels,
        nthreads=jobs if jobs > 1 else 0,
        build_dir=f"{BUILD_FOLDER}/cython",
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=ARRAYS,
    )
    # the longest files first, so that no core waits for one that began last
    return sorted(translated, key=lambda kernel: Path(kernel.sources[0]).stat().st_size, reverse=True)


def packages() -> tuple[list[str], dict[str, str]]:
    """Return every package name and the folder of each room."""
    names, folders = find_packages(include=["lapsvm", "lapsvm.*"]), {}
    for folder, name in ROOMS.items():
        below = find_packages(folder)
        names += [name, *(f"{name}.{part}" for part in below)]
        folders[name] = folder
        folders |= {f"{name}.{part}": str(Path(folder, *part.split("."))) for part in below}
    return names, folders


class ReproducibleSdist(sdist):
    """The source archive, written again without what differs between two machines: owners, times and order."""

    def make_distribution(self) -> None:
        """Write the archives, and normalise them."""
        super().make_distribution()
        for archive in self.archive_files:
            normalise(Path(archive))


def normalise(archive: Path) -> None:
    """Write a tar.gz again with its entries in the order of their names, of nobody, at SOURCE_DATE_EPOCH."""
    epoch, packed = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")), io.BytesIO()  # 1980, as zip begins
    with tarfile.open(archive) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for entry in sorted(old.getmembers(), key=lambda member: member.name):
            mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            plain = entry.replace(mtime=epoch, mode=mode, uid=0, gid=0, uname="", gname="")
            plain.pax_headers = {}  # they repeat the time
            new.addfile(plain, old.extractfile(entry) if entry.isfile() else None)
    archive.write_bytes(gzip.compress(packed.getvalue(), mtime=epoch))


def bill_of_materials(version: str, requirements: list[str]) -> dict[str, Any]:
    """Return what a wheel is made of, as CycloneDX 1.6: whose code is compiled into it, and what it needs."""
    own = {
        "type": "library",
        "bom-ref": "lapsvm",
        "name": "lapsvm",
        "version": version,
        "purl": f"pkg:pypi/lapsvm@{version}",
    }
    compiled = {"cython": (Cython.__version__, "Apache-2.0"), "numpy": (np.__version__, "BSD-3-Clause")}
    inside = [
        {
            "type": "library",
            "bom-ref": f"compiled {name}",
            "name": name,
            "version": number,
            "purl": f"pkg:pypi/{name}@{number}",
            "licenses": [{"license": {"id": licence}}],
            "description": "code of it is compiled into the kernels",
        }
        for name, (number, licence) in compiled.items()
    ]
    needed = []
    for requirement in sorted(requirements):
        name, rest = re.fullmatch(r"([\w.-]+)\s*(.*)", requirement).groups()
        bounds = [{"name": "lapsvm:versions", "value": rest}]
        needed.append(
            {"type": "library", "bom-ref": name, "name": name, "purl": f"pkg:pypi/{name}", "properties": bounds}
        )
    refs = [one["bom-ref"] for one in (*inside, *needed)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own | {"licenses": [{"license": {"id": "BSD-3-Clause"}}]}},
        "components": [*inside, *needed],
        "dependencies": [{"ref": "lapsvm", "dependsOn": refs}],
    }


class WheelWithBill(bdist_wheel):
    """A wheel with a bill of materials beside its metadata, where PEP 770 has it."""

    def write_wheelfile(self, wheelfile_base: str, **named: Any) -> None:
        """Write the bill, too."""
        super().write_wheelfile(wheelfile_base, **named)
        bill = bill_of_materials(self.distribution.get_version(), list(self.distribution.install_requires))
        path = Path(wheelfile_base, "sboms", "lapsvm.cdx.json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Build what the command line asks for."""
    check_compilers()
    jobs = build_jobs()
    names, folders = packages()
    setup(
        cmdclass={"sdist": ReproducibleSdist, "bdist_wheel": WheelWithBill},
        packages=names,
        package_dir=folders,
        package_data={
            "lapsvm": ["py.typed"],
            "lapsvm._ext": ["*.pyi", "*.pxd"],
            "lapsvm.report": ["*.html", "*.css"],
            "lapsvm.pipelines.review": ["page/*"],
        },
        exclude_package_data={"": ["*.pyx", "*.c", "*.cpp"]},
        ext_modules=extensions(jobs),
        options={"build": {"build_base": BUILD_FOLDER}, "build_ext": {"parallel": jobs}},
    )


if __name__ == "__main__":  # where processes are started and not forked, each reads this file
    main()
