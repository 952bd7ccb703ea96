"""Windows from MATLAB's files up to version 7: R-CNN's feature caches, and the lists of boxes of Fast R-CNN and WSDDN.

Version 7.3 is another format (HDF5), which is refused with the way out. SciPy reads the others. Some damaged files end
the process that reads them, so it does so in a process of its own, whose memory is limited on Linux.
"""

import atexit
import os
import pickle
import sys
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from threading import Lock
from typing import IO, Any, cast

import numpy as np

from lapsvm.arrays import check_distinct
from lapsvm.errors import ExternalFileError
from lapsvm.features.external.numpy_files import files_below, reason_of, unfolded_limit
from lapsvm.features.external.windows import ArrayNames, BoxConvention, ExternalSource, ExternalWindows, checked_windows
from lapsvm.files import read_regular

IMAGES = "images"
CACHE = BoxConvention("xyxy", 1, "inclusive")
LIST = BoxConvention("yxyx", 1, "inclusive")
EDGE_BOXES = BoxConvention("xywh", 1, "inclusive")


def open_mat(path: Path, names: ArrayNames) -> ExternalSource:
    """Open a ``.mat`` file of all pictures, or a folder with one for each.

    A file of all pictures has the cell array ``images`` of names and one of boxes, which are taken as y1, x1, y2, x2,
    1-based, the last pixels inside, as selective search, MCG and WSDDN write them. A file of one picture has an array
    of boxes (or a struct with one): with features, as R-CNN caches them, these are x1, y1, x2, y2, 1-based, the last
    pixels inside, and rows whose ``gt`` is 1 are annotated objects; ``bbs`` are EdgeBoxes' x, y, width, height; others
    are taken as those of a list.

    Raises
    ------
    MissingError
        If there is none.
    ExternalFileError
        If the first one is of version 7.3, truncated, or lacks its boxes.
    """
    files = files_below(path, ".mat")
    first = next(iter(files.values()))
    large = set(names.feature_names)
    content = read_mat_variables(first, large - {IMAGES})
    if IMAGES in content:
        if path.is_dir() and len(files) > 1:
            raise ExternalFileError(
                f"folder {path} holds lists of pictures such as {first}; name the files themselves."
            )
        return _list(first, names)
    fields = _fields(content, names)
    has_features = names.features_in(fields, str(first)) is not None
    boxes = names.boxes_in(fields, str(first))
    convention = CACHE if has_features else EDGE_BOXES if boxes == "bbs" else LIST

    def read(key: str, features: bool) -> ExternalWindows:
        content = read_mat_variables(files[key], () if features else large)
        return names.windows(str(files[key]), _fields(content, names), features)

    return ExternalSource(str(path), tuple(files), convention, has_features, read)


def _fields(content: Mapping[str, Any], names: ArrayNames) -> Mapping[str, Any]:
    """Return the variables of one picture's file, or the fields of its only struct if that holds the boxes."""
    structs = [value for value in content.values() if isinstance(value, dict)]
    if len(structs) == 1 and not any(name in content for name in names.box_names):
        return dict(structs[0])
    return content


def _list(path: Path, names: ArrayNames) -> ExternalSource:
    """Return the lists of a file of all pictures."""
    content, where = read_mat_variables(path), str(path)
    boxes_name, features_name = names.boxes_in(content, where), names.features_in(content, where)
    optional = features_name, names.objectness_in(content, where)
    cells = {name: content[name] for name in (IMAGES, boxes_name, *optional) if name is not None}
    for name, own in cells.items():
        if not isinstance(own, list):
            raise ExternalFileError(f"{where}: {name} must be a cell array, got {type(own).__name__}.")
        if len(own) != len(cells[IMAGES]):
            raise ExternalFileError(
                f"{where}: {name} must have one cell per picture, got {len(own)} for {len(cells[IMAGES])}."
            )
    keys = [_text(where, cell) for cell in cells[IMAGES]]
    check_distinct(keys, f"{where} must name each picture once", ExternalFileError)
    places = {key: place for place, key in enumerate(keys)}

    def read(key: str, features: bool) -> ExternalWindows:
        place = places[key]
        values, shares = (cells[name][place] if features and name is not None else None for name in optional)
        return checked_windows(f"{where}, picture {key}", cells[boxes_name][place], values, objectness=shares)

    return ExternalSource(where, tuple(keys), LIST, features_name is not None, read)


def _text(where: str, cell: Any) -> str:
    """Return the text of a cell, which may be wrapped in another one."""
    inner = cell[0] if isinstance(cell, list) and len(cell) == 1 else cell
    if not isinstance(inner, str):
        raise ExternalFileError(f"{where}: {IMAGES} must be names of pictures, got {type(inner).__name__}.")
    return inner.strip()


def read_mat_variables(path: Path, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the variables of a ``.mat`` file.

    Parameters
    ----------
    path : Path
    without : collection of str
        The names of variables that are not read, and None in the result.

    Returns
    -------
    dict of name to value
        Arrays of numbers or flags with their shape in MATLAB, texts (of several rows: joined), lists for cell arrays,
        dicts for structs of one entry, lists of dicts for others. What is no such thing (functions, objects, sparse and
        complex arrays) is None.

    Raises
    ------
    MissingError
        If there is no such file.
    ExternalFileError
        If it is of version 7.3, is truncated or damaged, or is no such file.
    """
    content = read_regular(path, "file")
    if content.startswith(b"MATLAB 7.3"):
        raise ExternalFileError(
            f"{path} is of MATLAB's version 7.3, which is not read; load it in MATLAB and save it with '-v7'."
        )
    if content[126:128] not in (b"IM", b"MI"):
        raise ExternalFileError(f"{path} is truncated, or no .mat file of the versions 5 to 7.")
    found = _READER.ask(content, set(without))
    if isinstance(found, str):
        raise ExternalFileError(f"{path} is truncated or damaged: {found}.")
    return found


class _Reader:
    """A process that reads files, one after the other; it is started when it is needed, and again after it ended."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: Popen[bytes] | None = None
        self._owner = 0
        atexit.register(self._end)

    def ask(self, content: bytes, without: set[str]) -> dict[str, Any] | str:
        """Return the variables of a file, or what is wrong with it."""
        with self._lock:
            try:
                if self._process is None or self._owner != os.getpid():  # a fork must not share the pipes
                    self._process, self._owner = _started(), os.getpid()
                    _exchanged(self._process, (b"", set()))
                return _exchanged(self._process, (content, without))
            except BaseException as error:  # also Ctrl-C: the rest of this answer is none to the next file
                self._end()
                if isinstance(error, EOFError | OSError | pickle.UnpicklingError):
                    return "the process that reads it ended"
                raise

    def _end(self) -> None:
        """End the process, unless it is that of the process that was forked to make this one."""
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            with suppress(OSError), self._process:  # closes the pipes; a part of a request may be left in one
                pass
        self._process = None


_READER = _Reader()


def _started() -> Popen[bytes]:
    """Return a process that serves; it does not see Ctrl-C, and ends when its pipes do."""
    places = os.pathsep.join(map(os.path.abspath, sys.path))
    line = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"]
    environment = {**os.environ, "PYTHONPATH": places}
    return Popen(  # noqa: S603 - this program itself
        line, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment, start_new_session=True
    )


def _exchanged(process: Popen[bytes], request: tuple[bytes, set[str]]) -> dict[str, Any] | str:
    """Return the process's answer to a request."""
    requests, answers = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
    pickle.dump(request, requests)
    requests.flush()
    answer: dict[str, Any] | str = pickle.load(answers)  # noqa: S301 - of our own process
    return answer


def serve() -> None:
    """Answer the requests of the process that started this one, until it ends."""
    warnings.simplefilter("error", np.exceptions.ComplexWarning)  # of numbers that would lose a part
    while True:
        try:
            content, without = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own process
        except EOFError:
            return
        _limit_memory(2 * unfolded_limit(len(content)))
        answer = _answer(content, without)
        _limit_memory(None)
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.flush()


def _limit_memory(more: int | None) -> None:
    """Let this process take so many bytes more than it has, on systems that tell how many it has and limit them."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = most if more is None else pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def _answer(content: bytes, without: set[str]) -> dict[str, Any] | str:
    """Return the variables of a file, or what is wrong with it."""
    from scipy.io import loadmat, whosmat

    try:
        names = [name for name, *_ in whosmat(BytesIO(content))]
        wanted = [name for name in names if name not in without]
        found = loadmat(BytesIO(content), mat_dtype=True, variable_names=wanted)
        return {name: _plain(found.get(name)) for name in names}
    except MemoryError:
        return "its values take far more memory than a file of its size can hold"
    except Exception as error:  # noqa: BLE001 - SciPy raises whatever comes of what it reads
        return reason_of(error)


def _plain(value: Any) -> Any:
    """Return a value of SciPy's as `read_mat_variables` gives it."""
    if type(value) is not np.ndarray:  # its own kinds of arrays are of objects and functions
        return None
    rows = value.ravel(order="F")
    if value.dtype.names is not None:
        entries = [{name: _plain(row[name]) for name in value.dtype.names} for row in rows]
        return entries[0] if len(entries) == 1 else entries
    if value.dtype.kind == "O":
        return [_plain(one) for one in rows]
    if value.dtype.kind == "U":
        return "".join(rows)
    return np.ascontiguousarray(value) if value.dtype.kind in "biuf" else None
