"""The models of a prediction: their files, and the windows, features and detection that they record."""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapsvm.arrays import as_number
from lapsvm.detection.detector import Detector, provenance_value
from lapsvm.detection.picture_scores import detect_windows
from lapsvm.detection.scoring import DETECTION, SEARCHED, scoring_difference, threshold_fits
from lapsvm.errors import InputError, MissingError, ModelFileError, SettingsError
from lapsvm.features import Extractor, recorded_description, settings_difference
from lapsvm.features.extractors.extractor import described_texts, open_sized_extractor
from lapsvm.inspection.threshold import FILE, AlarmThreshold
from lapsvm.settings import FILE as BY_FILE
from lapsvm.settings import IMPORTED, DetectSettings, NetworkSettings, ProposalSettings, current_names
from lapsvm.texts.reading import read_toml
from lapsvm.windows.proposals import WINDOWS_VERSION

if TYPE_CHECKING:
    from lapsvm.objectness.good_pictures import GoodPictures

MODEL_SUFFIX = ".safetensors"
_EXAMPLE = np.array([1.0, 0.0]), np.array([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0]])


def model_files(paths: Iterable[Path]) -> list[Path]:
    """Return the model files of files, folders of models and run folders, each once.

    Raises
    ------
    MissingError
        If a folder has none, or a run is not trained. A threshold by good pictures alone stands for the models of a
        run that has none.
    """
    files: dict[Path, Path] = {}
    for path in paths:
        models, is_run = path / "models", (path / "run.toml").is_file()
        if is_run and not models.is_dir():
            raise MissingError(
                f"run {path} has no models yet; run lapsvm train first, or lapsvm threshold for good ones alone."
            )
        folder = models if models.is_dir() else path
        inside = [path]
        if path.is_dir():
            inside = [file for file in sorted(folder.iterdir()) if file.suffix == MODEL_SUFFIX]
            inside = inside or [file for file in [folder / FILE] if file.is_file()]
        if not inside:
            raise MissingError(f"folder {folder} holds no model file (*{MODEL_SUFFIX}).")
        files |= {file.resolve(): file for file in inside if file.resolve() not in files}
    return list(files.values())


def load_models(files: Sequence[Path]) -> list[Detector]:
    """Return the models of files; none for a threshold by good pictures alone.

    Raises
    ------
    MissingError, ModelFileError
        If a file is not there or damaged, or a threshold is of models that are gone.
    """
    if files[0].name != FILE:
        return [Detector.load(path) for path in files]
    if AlarmThreshold.load(files[0]).record is None:
        raise MissingError(f"folder {files[0].parent} holds no model file (*{MODEL_SUFFIX}).")
    return []


def recorded_run(detectors: Sequence[Detector], files: Sequence[Path]) -> Detector:
    """Return the first model, or a detector of no window with the record of a threshold by good pictures alone."""
    if detectors:
        return detectors[0]
    return Detector("", np.empty(0), provenance=AlarmThreshold.load(files[0]).record or {})


def model_paths(models: object) -> list[Path]:
    """Return one path, or a sequence of paths, as a list; InputError if it is something else, or there are none."""
    paths = [models] if isinstance(models, str | Path) else models
    if not isinstance(paths, Iterable) or isinstance(paths, bytes):
        raise InputError(f"models must be a path, or a sequence of paths, got {type(models).__name__}.")
    files = list(paths)
    wrong = [type(path).__name__ for path in files if not isinstance(path, str | Path)]
    if wrong or not files:
        raise InputError(f"models must be one path or more, got {wrong[0] if wrong else 'none'}.")
    return [Path(path) for path in files]


def check_together(detectors: Sequence[Detector], files: Sequence[Path]) -> None:
    """Raise SettingsError if two models are of one class, or were trained on different windows or features."""
    if not detectors:
        return
    counts = Counter(detector.class_name for detector in detectors)
    name, count = counts.most_common(1)[0]
    if count > 1:
        same = [str(file) for detector, file in zip(detectors, files, strict=True) if detector.class_name == name]
        raise SettingsError(f"models must be of different classes, got {' and '.join(same)} for {name!r}.")
    first = detectors[0]
    for detector in detectors:
        if provenance_value(detector, "shards") != provenance_value(first, "shards"):
            raise SettingsError(
                f"models {first.class_name!r} and {detector.class_name!r} were trained on different windows or "
                "features; predict with one of them at a time."
            )


def check_threshold(detectors: Sequence[Detector], files: Sequence[Path], threshold: float | None) -> None:
    """Raise SettingsError if there is a threshold and a model without probabilities; InputError if it is none."""
    if threshold is not None and not 0 <= as_number("the threshold", threshold) <= 1:
        raise InputError(f"the threshold must be a probability from 0 to 1, got {threshold}.")
    without = [file for detector, file in zip(detectors, files, strict=True) if detector.calibration is None]
    if threshold is not None and without:
        raise SettingsError(
            f"model {without[0]} has no probabilities for a threshold; train it again, or leave the threshold out."
        )


def stored_alarm(
    models: Sequence[Detector], files: Sequence[Path], used: Sequence[Mapping[str, Any]]
) -> AlarmThreshold | None:
    """Return the threshold in the folder of all model files, or None; warn of one that does not belong to them.

    `used` has the result of `lapsvm.detection.scoring.used_scoring` for each model. A threshold of an earlier version
    counts whole pictures so that more good ones may alarm than it promises, which a warning says. Raises ModelFileError
    if it is damaged.
    """
    folders = {file.parent for file in files}
    path = next(iter(folders)) / FILE
    if len(folders) > 1 or not path.is_file():
        return None
    alarm = AlarmThreshold.load(path)
    if not threshold_fits(alarm, models):
        _warn(f"{path} was chosen for other models and is not used; run lapsvm threshold again.")
        return None
    pairs = zip(models, used, strict=True)
    difference = next(filter(None, (scoring_difference(alarm, *pair) for pair in pairs)), "")
    if difference:
        _warn(
            f"{path} was chosen with {difference} and is not used: pictures get no decision. Predict as the models "
            "record, or train and run lapsvm threshold with these settings."
        )
        return None
    if alarm.scoring is None and alarm.pictures:
        _warn(
            f"{path} is of an earlier version, by which more good pictures may alarm than it promises; run lapsvm "
            "threshold again."
        )
    return alarm


def stored_memory(alarm: AlarmThreshold | None, folder: Path, extractor: Extractor) -> "GoodPictures | None":
    """Return the memory of good pictures of a threshold, None without one; warn if it is not the threshold's."""
    if alarm is None or alarm.unlike is None:
        return None
    from lapsvm.objectness.good_pictures import FILE as MEMORY
    from lapsvm.objectness.good_pictures import GoodPictures, good_network

    path, network = folder / MEMORY, good_network(extractor)
    if network is None:
        return None
    try:
        memory = GoodPictures.load(path, network)
        if memory.digest == alarm.unlike.memory:
            return memory
        reason = f"{path} is of another threshold"
    except (MissingError, SettingsError) as error:
        reason = str(error).rstrip(".")
    _warn(f"of {folder} finds nothing unknown, as {reason}; run lapsvm threshold again.")
    return None


def _warn(sentence: str) -> None:
    """Warn of a threshold."""
    warnings.warn(f"threshold {sentence}", stacklevel=4)


def proposal_settings(detector: Detector, file: Path, method: str | None) -> ProposalSettings:
    """Return the settings of window proposals: those of the model, or another method.

    Raises SettingsError if the features of the model are imported, or its windows are and `method` is None. Warns if
    the model was trained on the selective search of another version, whose windows are others.
    """
    windows = provenance_value(detector, "shards", "windows")
    source = provenance_value(detector, "shards", "windows", "method")
    if source == IMPORTED:
        raise SettingsError(
            f"model {file} was trained on imported features, which lapsvm cannot compute for new pictures; import "
            "their features and run lapsvm detect."
        )
    if method is None and source == BY_FILE:
        raise SettingsError(
            f"model {file} was trained on windows from a file, which has none for new pictures; name a method by "
            "the parameter windows, such as selective_search."
        )
    known = [entry.name for entry in fields(ProposalSettings)]
    recorded = {name: windows[name] for name in known if name in windows}  # windows of a file have no mode
    settings = ProposalSettings(**recorded | ({"method": method, "mode": "fast"} if method else {}))
    version = windows.get("version")
    is_searched = settings.method == source and source in SEARCHED
    if is_searched and version != WINDOWS_VERSION:
        warnings.warn(
            f"model {file} was trained on windows of version {version} of {source}, predict proposes those of version "
            f"{WINDOWS_VERSION}: scores may differ; extract and train again for equal windows.",
            stacklevel=3,
        )
    return settings


def open_model_extractor(detector: Detector, file: Path, texts: Sequence[str] | None, device: str) -> Extractor:
    """Return the extractor of a model; a model knows the hash of a network file, its run folder the path.

    Raises SettingsError or InputError unless it gives the features of the model's training; `texts` replace those that
    the model or its run folder name, and only their dimension is compared.
    """
    features = provenance_value(detector, "shards", "features", "extractor")
    expected = features.get("of", features)  # a projection is part of the models' weights
    networks = _network_settings(detector)
    known = tuple(texts or described_texts(expected) or _run_extractors(file))
    extractor = open_sized_extractor(known, networks, device, texts or ())
    difference = settings_difference(expected, recorded_description(extractor))
    if not texts and difference:
        raise SettingsError(
            f"model {file} was trained with {difference}; name its extractor by the parameter extractor."
        )
    if len(detector.coef) not in (0, extractor.dim):
        raise InputError(
            f"the extractor must give the {len(detector.coef)} features of the model's training, got {extractor.dim}."
        )
    return extractor


def _network_settings(detector: Detector) -> NetworkSettings:
    """Return the settings for networks that a model records; ModelFileError if they are none."""
    stored = provenance_value(detector, "shards", "features", "networks")
    try:
        return NetworkSettings.from_provenance(stored)
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"model {detector.class_name!r} must record its settings for networks: {error}.") from None


def _run_extractors(model: Path) -> tuple[str, ...]:
    """Return the extractors of the run folder of a model file."""
    path = model.resolve().parent.parent / "run.toml"
    if not path.is_file():
        raise MissingError(
            f"model {model} is in no run folder that names its extractor; name it by the parameter extractor."
        )
    try:
        texts = current_names(read_toml(path, "settings file", SettingsError))["features"]["extractors"]
        return tuple(str(text) for text in texts)
    except (LookupError, TypeError) as error:
        raise SettingsError(f"settings file {path} must name the extractors of its run: {error}.") from None


def recorded_detect_settings(detector: Detector, path: Path, changes: Mapping[str, Any]) -> DetectSettings:
    """Return the detection settings in the provenance of `detector`, with some changes.

    Raises ModelFileError if what is recorded breaks a rule, and InputError if a change does.
    """
    stored = provenance_value(detector, DETECTION)
    try:
        recorded = _checked(DetectSettings(**_of_known_types(stored)))
    except (InputError, TypeError) as error:
        raise ModelFileError(f"model {path} must record valid detection settings: {error}") from None
    return _checked(replace(recorded, **changes))


def _checked(settings: DetectSettings) -> DetectSettings:
    """Return settings that keep the rules of detection, tried on an example."""
    detect_windows(*_EXAMPLE, settings)
    return settings


def _of_known_types(stored: Any) -> dict[str, Any]:
    """Return stored settings in the types of the defaults; TypeError for what is no such number."""
    defaults = asdict(DetectSettings())
    if not isinstance(stored, Mapping):
        raise TypeError(f"they must be a table, got {type(stored).__name__}.")
    for name, value in stored.items():
        if type(value) not in (int, type(defaults.get(name, 0))):
            raise TypeError(f"{name} must be a number, got {value!r}.")
    return {name: type(defaults.get(name, 0))(value) for name, value in stored.items()}
