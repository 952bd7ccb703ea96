"""A disk that loses what was not synced: the states in which a power failure, or a kill, may leave a folder.

The folder is a real one. Before and after every call that the system may be cut at (fsync, rename, unlink, mkdir,
rmdir) the disk is looked at. What a file or folder held when it was synced is durable. From that follow the states that
a crash at this moment may leave:

* synced: durable names, with durable content;
* kill: everything as it is, for the system goes on;
* names: the names of now, with durable content;
* half, zeros: the names of now; of what was written since, half has come to the disk, or its length alone;
* lost, alone: of what has happened to names since their folders were synced, all but one thing has come to the disk, or
  that one alone. A rename is one thing, also between two folders.
"""

import os
import shutil
import stat
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

LINK = b"\0link to "
CUT_AT = ("fsync", "replace", "rename", "unlink", "mkdir", "rmdir")
State = dict[str, str | None]
"""Relative path -> digest of its content; None for folders."""


class Moment(NamedTuple):
    """A state that a crash may leave, what was acknowledged before, and which call was cut how."""

    state: State
    acknowledged: int
    cut: str


class SimulatedDisk:
    """The states of a folder under a program that writes to it.

    Parameters
    ----------
    root : Path
        What it holds at first is durable.
    """

    def __init__(self, root):
        self.root, self.acknowledged, self.moments = Path(root), 0, []
        self._blobs, self._seen, self._kept = {}, set(), {}
        self._content, self._stamps, self._durable, self._names = {}, {}, {}, {}
        self._empty = self._blob(b"")
        tree = self._look()
        self._durable |= self._content
        for folder in [self.root, *(path for path in self.root.rglob("*") if path.is_dir())]:
            self._names[folder.stat().st_ino] = tree[folder]

    def watch(self, monkeypatch):
        """Look at the disk at every call from now on."""
        for name in CUT_AT:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name, call):
        def cut(*arguments, **named):
            self._record(f"before {name}")
            result = call(*arguments, **named)
            if name == "fsync":
                self._synced(arguments[0])
            self._record(f"after {name}")
            return result

        return cut

    def acknowledge(self):
        """Note that the program has said of one more thing that it is done."""
        self.acknowledged += 1
        self._record("after an answer")

    def write(self, state, folder):
        """Write a state into a new folder."""
        folder.mkdir(parents=True)
        for name, digest in sorted(state.items()):
            path = folder / name
            if digest is None:
                path.mkdir()
            elif self._blobs[digest].startswith(LINK):
                path.symlink_to(self._blobs[digest].removeprefix(LINK).decode())
            else:
                path.write_bytes(self._blobs[digest])
        return folder

    def text(self, state, name):
        """Return the content of a file in a state. b"" if it is not there."""
        return self._blobs[state[name]] if state.get(name) else b""

    # ---- what the disk holds ----
    def _look(self):
        """Return folder -> name -> (inode, whether it is a folder), and keep what the files hold."""
        tree = {}
        for parent, folders, files in os.walk(self.root):
            tree[Path(parent)] = {name: (os.lstat(os.path.join(parent, name)).st_ino, True) for name in folders}
            for name in files:
                path = os.path.join(parent, name)
                status = os.lstat(path)
                tree[Path(parent)][name] = status.st_ino, False
                if stat.S_ISLNK(status.st_mode):  # where it leads lies beside its name
                    target = self._blob(LINK + os.readlink(path).encode())
                    self._content[status.st_ino] = self._durable[status.st_ino] = target
                    continue
                stamp = status.st_mtime_ns, status.st_size
                if self._stamps.get(status.st_ino) != stamp:
                    self._stamps[status.st_ino] = stamp
                    self._keep(status.st_ino, path)
        return tree

    def _keep(self, inode, path):
        with open(path, "rb") as file:
            self._content[inode] = self._blob(file.read())
        if inode not in self._kept:  # as long as it is open no other file gets its number
            self._kept[inode] = os.open(path, os.O_RDONLY)

    def _blob(self, content):
        digest = blake2b(content, digest_size=16).hexdigest()
        self._blobs[digest] = content
        return digest

    def _synced(self, descriptor):
        """Note that an open file or folder is durable."""
        status, tree = os.fstat(descriptor), self._look()
        if status.st_ino in self._content:
            self._durable[status.st_ino] = self._content[status.st_ino]
        for folder, names in tree.items():
            if folder.stat().st_ino == status.st_ino:
                self._names[status.st_ino] = names
                self._kept.setdefault(status.st_ino, os.dup(descriptor))

    def _record(self, cut):
        names = self._current(self._look())
        current = self._flat(self.root.stat().st_ino, lambda inode: names.get(inode, {}))
        for kind, state in (self._states(current) | self._partial(names)).items():
            key = (frozenset(state.items()), self.acknowledged)
            if key not in self._seen:
                self._seen.add(key)
                self.moments.append(Moment(state, self.acknowledged, f"{cut}: {kind}"))

    @staticmethod
    def _current(tree):
        return {folder.stat().st_ino: names for folder, names in tree.items()}

    def _flat(self, inode, names_of, prefix=""):
        """Return path -> inode of a file, None for folders, below a folder."""
        found = {}
        for name, (own, is_folder) in ((name, entry) for name, entry in names_of(inode).items() if entry):
            found[prefix + name] = None if is_folder else own
            if is_folder:
                found |= self._flat(own, names_of, f"{prefix}{name}/")
        return found

    def _states(self, current):
        synced = self._flat(self.root.stat().st_ino, lambda inode: self._names.get(inode, {}))
        lost = {inode: self._durable.get(inode, self._empty) for inode in self._content}
        fresh = [inode for inode, digest in self._content.items() if self._durable.get(inode) != digest]
        half = self._content | {inode: self._torn(inode, lambda new: new[: len(new) // 2]) for inode in fresh}
        zeros = self._content | {inode: self._torn(inode, lambda new: bytes(len(new))) for inode in fresh}
        views = {"synced": (synced, lost), "kill": (current, self._content), "names": (current, lost)}
        views |= {"half": (current, half), "zeros": (current, zeros)}
        return {
            kind: {path: None if inode is None else content[inode] for path, inode in names.items()}
            for kind, (names, content) in views.items()
        }

    def _partial(self, current):
        """Return the states in which one thing that happened to names is lost, or has come to the disk alone."""
        changes, found = self._changes(current), {}
        lost = {inode: self._durable.get(inode, self._empty) for inode in self._content}
        for number, change in enumerate(changes) if len(changes) > 1 else ():
            others = [one for one in changes if one is not change]
            for kind, made in (("lost", others), ("alone", [change])):
                names = {folder: dict(entries) for folder, entries in self._names.items()}
                for folder, name, entry in (row for one in made for row in one):
                    names.setdefault(folder, {})[name] = entry
                paths = self._flat(self.root.stat().st_ino, lambda inode, names=names: names.get(inode, {}))
                found[f"{kind} {number}"] = {path: None if one is None else lost[one] for path, one in paths.items()}
        return found

    def _changes(self, current):
        """Return the changes of names since their folders were synced: rows (folder, name, entry or None)."""
        found = {}
        for folder, now in current.items():
            synced = self._names.get(folder, {})
            for name in sorted(synced.keys() | now.keys()):
                before, after = synced.get(name), now.get(name)
                if before != after:
                    found.setdefault((after or before)[0], []).append((folder, name, after))
        return list(found.values())

    def _torn(self, inode, changed):
        """Keep the synced content of a file, and a function's version of the content since."""
        now, then = self._blobs[self._content[inode]], self._blobs[self._durable.get(inode, self._empty)]
        return self._blob(then + changed(now[len(then) :]) if now.startswith(then) else changed(now))

    def close(self):
        """Let go of the files."""
        for descriptor in self._kept.values():
            os.close(descriptor)
        self._kept.clear()


def emptied(folder):
    """Remove the content of a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder
