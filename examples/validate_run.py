"""Check a run folder by its written format alone: JSON, NumPy and the standard library, nothing of lapsvm.

    python validate_run.py RUN

docs/reference/run_folder.md describes the format. A program in another language can be written from that section and
from this file. Each broken rule is a line; the exit status is 1 if there is one.
"""

import hashlib
import json
import math
import struct
import sys
import tomllib
from pathlib import Path

import numpy as np

TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I8": "|i1",
    "BOOL": "|b1",
}
SHARD = {"boxes": "F32", "features": "F16 F32 BF16", "offsets": "I64", "sizes": "I32", "objectness": "F32"}
MODELS = {  # folder or file -> "format", and the tensors that it must have
    "models": ("lapsvm detector", ("coef", "scale")),
    "first": ("lapsvm detector", ("coef", "scale")),
    "folds": ("lapsvm fold models", ("fold", "coef")),
    "heldout": ("lapsvm held-out scores", ("y", "fold", "score", "boxes", "agreement")),
    "projection.safetensors": ("lapsvm projection", ("components0",)),
    "normal.safetensors": ("lapsvm normal map", ()),
}


class BrokenRuleError(Exception):
    """A file that is not as the format says."""


def require(condition, rule):
    """Raise BrokenRuleError unless a rule is kept."""
    if not condition:
        raise BrokenRuleError(rule)


# ---- safetensors: 8 bytes of length, a JSON table, the tensors one after the other ----
def read_safetensors(path):
    """Return the description under the key "lapsvm", and name -> (array, type name)."""
    content = path.read_bytes()
    require(len(content) >= 8, "has no length")
    (length,) = struct.unpack("<Q", content[:8])
    require(8 + length <= len(content), "is cut short in its table")
    table = json.loads(content[8 : 8 + length])
    description = json.loads(table.pop("__metadata__")["lapsvm"])
    tensors = {}
    for name, entry in table.items():
        start, stop = (8 + length + offset for offset in entry["data_offsets"])
        require(stop <= len(content), f"is cut short in {name}")
        array = np.frombuffer(content[start:stop], TYPES[entry["dtype"]])
        require(array.size == math.prod(entry["shape"]), f"has a shape of {name} that is not its size")
        tensors[name] = array.reshape(entry["shape"]), entry["dtype"]
    return description, tensors


def digest_of(text, tensors, end=""):
    """Return the hash of a description and of the tensors by name: 32 hex digits."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, (array, kind) in sorted(tensors.items()):
        word = "bfloat16" if kind == "BF16" else array.dtype.str
        digest.update(f"{name} {word} {array.shape}{end}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def check_shard(path):
    """Check a shard: its checksum, its tensors, and its pictures."""
    description, tensors = read_safetensors(path)
    require(description["format"] == "lapsvm shard 1", "must have the format lapsvm shard 1")
    checksum = description.pop("checksum")
    text = json.dumps(description, sort_keys=True, separators=(",", ":"))
    require(digest_of(text, tensors) == checksum, "does not match its checksum")
    for name, (_, kind) in tensors.items():
        require(name in SHARD and kind in SHARD[name].split(), f"must not hold {name} as {kind}")
    boxes, offsets, sizes = (tensors[name][0] for name in ("boxes", "offsets", "sizes"))
    ids, count = description["image_ids"], len(description["image_ids"])
    require(len(set(ids)) == count == len(description["pixel_hashes"]), "must name each picture once, with its hash")
    require(offsets.shape == (count + 1,) and sizes.shape == (count, 2), "must have offsets and sizes of its pictures")
    rises = offsets[0] == 0 and offsets[-1] == len(boxes) and (np.diff(offsets) >= 0).all()
    require(rises, "must have offsets that rise from 0 to the number of windows")
    require(boxes.shape == (len(tensors["features"][0]), 4), "must have four corners for each row of features")
    require(np.isfinite(boxes).all(), "must have finite boxes")


def check_model(path, kind, names):
    """Check a file of a model: its digest, and that it has its tensors."""
    description, tensors = read_safetensors(path)
    require(description["format"] == kind and description["version"] == 1, f"must have the format {kind}, version 1")
    digest = description.pop("digest")
    require(digest_of(json.dumps(description, sort_keys=True), tensors, "\n") == digest, "does not match its digest")
    require(set(names) <= tensors.keys(), f"must hold {', '.join(names)}")
    if kind == "lapsvm detector":
        require(tensors["coef"][0].shape == tensors["scale"][0].shape, "must have a scale for each weight")
        require(description["class_name"] == path.stem, "must be named as its class")
    if kind == "lapsvm held-out scores":
        rows = {len(array) for array, _ in tensors.values()}
        require(rows == {len(description["ids"])}, "must have one row for each picture")


# ---- text ----
def check_results(folder):
    """Check the result files of a set, and that detections.json has their hashes."""
    stamp = json.loads((folder / "detections.json").read_text())
    files = {path.name: path.read_bytes() for path in folder.glob("*.txt")}
    hashes = {name: hashlib.blake2b(content, digest_size=16).hexdigest() for name, content in files.items()}
    require(hashes == stamp["results"], "must have the hashes of its result files")
    for name, content in files.items():
        for number, line in enumerate(content.decode().splitlines(), start=1):
            numbers = [float(word) for word in line.rpartition("\t")[2].split()[-5:]]
            require(len(numbers) == 5 and all(map(math.isfinite, numbers)), f"{name}, line {number}: needs 5 numbers")


def check_figures(path):
    """Check evaluation.json: sets, classes, and numbers or null."""
    sets = json.loads(path.read_text())["sets"]
    for name, entry in sets.items():
        rows = [entry["mean"], *entry["classes"].values()]
        values = [value for row in rows for value in row.values()]
        is_number = all(value is None or isinstance(value, int | float) for value in values)
        require(is_number, f"must have numbers or null as figures of {name}")


def check_verdicts(path):
    """Check verdicts.jsonl: an object a line; the last one may be cut short."""
    *lines, _ = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        entry = json.loads(line)
        require(entry["verdict"] in ("boxes", "none", "absent", "skip"), f"line {number}: is no verdict")
        require((entry["verdict"] == "boxes") == bool(entry.get("boxes")), f"line {number}: boxes go with 'boxes'")
        require(entry["picture"] and entry["class"], f"line {number}: names a picture and a class")


def check_list(path):
    """Check the list of files: its first line, and paths that stay in the folder."""
    header, *lines = path.read_text().splitlines()
    require(header == "lapsvm files 1", "must begin with lapsvm files 1")
    for line in lines:
        name = json.loads(line)
        require(not name.startswith("/") and ".." not in name.split("/"), f"must not list {name}")


def check_listed(run):
    """Check that every file which lapsvm writes is on the list."""
    listed = {json.loads(line) for line in (run / ".lapsvm-files").read_text().splitlines()[1:]}
    for path in run.glob("*/*.safetensors"):
        require(path.relative_to(run).as_posix() in listed, f"must list {path.relative_to(run)}")


def checks(run):
    """Yield the files of a run with the function that checks each."""
    yield run / "run.toml", lambda path: tomllib.loads(path.read_text())
    yield run / ".lapsvm-files", check_list
    yield run / ".lapsvm-files", lambda _: check_listed(run)
    yield from ((path, check_shard) for path in sorted(run.glob("shards/*/*.safetensors")))
    yield from ((path, check_shard) for path in run.glob("drawn.safetensors"))
    for name, (kind, tensors) in MODELS.items():
        for path in sorted(run.glob(name if "." in name else f"{name}/*.safetensors")):
            yield path, lambda path, kind=kind, tensors=tensors: check_model(path, kind, tensors)
    yield from ((path, check_results) for path in sorted(run.glob("detections/*")))
    for name, check in {"evaluation.json": check_figures, "verdicts.jsonl": check_verdicts}.items():
        yield from ((path, check) for path in run.glob(name))


def main(run):
    """Print a line for each broken rule; return the exit status."""
    broken = count = 0
    for path, check in checks(Path(run)):
        count += 1
        try:
            check(path)
        except BrokenRuleError as error:
            print(f"{path} {error}.")
            broken += 1
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"{path} cannot be read: {type(error).__name__} {error}.")
            broken += 1
    print(f"{count} checks, {broken} rules broken.")
    return 1 if broken or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
