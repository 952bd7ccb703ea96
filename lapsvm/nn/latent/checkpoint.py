"""The state of a training in a file: written atomically, read without running code, refused where it does not fit."""

from collections.abc import Iterable
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lapsvm.errors import MissingError, ModelFileError, SettingsError
from lapsvm.files import is_named, remove_stale
from lapsvm.model_files import read_model, write_model

_FORMAT, _VERSION = "lapsvm fine-tuning", 1


class Checkpoint:
    """A file with the state of a training.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._settings: dict[str, Any] = {}

    def describe(self, settings: dict[str, Any]) -> None:
        """Set the settings that the file records, and must have recorded."""
        self._settings = settings

    def write(self, state: dict[str, Any], history: list[dict[str, Any]]) -> None:
        """Write state and history; the file is the old one or the new one, whatever happens."""
        content = BytesIO()
        torch.save(state, content)
        description = {"format": _FORMAT, "version": _VERSION, "settings": self._settings, "history": history}
        tensors = {"state": np.frombuffer(content.getvalue(), dtype=np.uint8)}
        remove_stale(self._path.parent, lambda name: name == self._path.name)
        write_model(self._path, description, tensors, "the training's settings")

    def read(self) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """Return state and history, or None if there is no file.

        Raises
        ------
        MissingError
            If its folder does not exist: the first epoch would be lost.
        ModelFileError
            If the file is damaged.
        SettingsError
            If it was made with other settings.
        """
        if not self._path.parent.is_dir():
            raise MissingError(f"folder {self._path.parent} is not there, so {self._path.name} cannot be written.")
        if not is_named(self._path):
            return None
        description, tensors = read_model(self._path, _FORMAT, _VERSION)
        stored, history = description.get("settings"), description.get("history")
        if not isinstance(stored, dict) or not isinstance(history, list):
            raise ModelFileError(f"checkpoint {self._path} is damaged: it has no settings or no history.")
        for name, value in self._settings.items():
            if stored.get(name) != value:
                raise SettingsError(
                    f"checkpoint {self._path} must be of the same {name}, {_short(value)}, got "
                    f"{_short(stored.get(name))}; choose a new file, or remove it."
                )
        try:
            state = torch.load(BytesIO(tensors["state"].tobytes()), weights_only=True, map_location="cpu")
        except Exception as error:  # noqa: BLE001 - what is no state may lead its reader anywhere
            raise self.damaged(error) from None
        return state, history

    def damaged(self, error: Exception) -> ModelFileError:
        """Return the error for a state that cannot be used."""
        return ModelFileError(f"checkpoint {self._path} is damaged: {_short(error)}.")


def digest_of(text: str) -> str:
    """Return a hash of a text."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def digest_of_tensors(tensors: Iterable[torch.Tensor]) -> str:
    """Return a hash of tensors: types, shapes and values."""
    digest = blake2b(digest_size=8)
    for tensor in tensors:
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{values.dtype} {tuple(values.shape)}\n".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _short(value: Any) -> str:
    """Return a setting on one line."""
    return " ".join(str(value).split())
