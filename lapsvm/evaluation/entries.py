"""The check of a set's figures that were read from a file, before anything is computed or shown from them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lapsvm.arrays import is_optional_number
from lapsvm.errors import DataError
from lapsvm.evaluation.boxes.error_kinds import ErrorKind
from lapsvm.evaluation.tables import NPOS


def check_entry(entry: Any, where: str = "figures") -> None:
    """Raise DataError unless a set's entry of a run's evaluation.json has numbers where its readers expect them.

    Parameters
    ----------
    entry : any value that JSON can hold
    where : str
        Name of the entry in the message.
    """
    _check_table(entry, where, _check_number)
    for name, of_class in _mapping(entry.get("errors", {}), f"errors of {where}").items():
        objects = _mapping(entry["classes"].get(name), f"{name} of {where}").get(NPOS)
        _check_count(objects, f"npos of {name} of {where}")
        kinds = _mapping(of_class, f"errors of {name} of {where}")
        for kind in ("correct", *ErrorKind):
            _check_count(_mapping(kinds.get(kind), f"{kind} of {where}").get("top"), f"top of {kind} of {where}")
            _check_number(kinds[kind].get("ap_gain"), f"ap_gain of {kind} of {where}")
    if "any_class" in entry:
        for measure, number in _mapping(entry["any_class"], f"any_class of {where}").items():
            _check_number(number, f"{measure} of any_class of {where}")
    if "windows" in entry:
        _check_table(entry["windows"], f"windows of {where}", _check_number)
    if "intervals" in entry:
        _check_table(entry["intervals"], f"intervals of {where}", _check_interval)
        drawn = ("level", "draws", *(["groups"] if "groups" in entry["intervals"] else []))
        _check_numbers(entry["intervals"], drawn, f"intervals of {where}")
        for measure, found in _mapping(entry["intervals"].get("any_class", {}), f"intervals of {where}").items():
            _check_interval(found, f"{measure} of any_class of {where}")
    if "held_out" in entry:
        held_out = _mapping(entry["held_out"], f"held_out of {where}")
        check_entry({"classes": {}, "mean": {}, **held_out}, f"held_out of {where}")


def _check_table(value: Any, where: str, check: Callable[[Any, str], None]) -> None:
    """Raise DataError unless a value holds "classes" and "mean", of which each measure passes the check."""
    table = _mapping(value, where)
    rows = _mapping(table.get("classes"), f"classes of {where}")
    for name, row in (*rows.items(), ("mean", table.get("mean"))):
        for measure, number in _mapping(row, f"{name} of {where}").items():
            check(number, f"{measure} of {name} of {where}")


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(f"{where} must be a table of names and values, got {type(value).__name__}.")
    return value


def _check_number(value: Any, where: str) -> None:
    if not is_optional_number(value):
        raise DataError(f"{where} must be a finite number or None, got {type(value).__name__}.")


def _check_count(value: Any, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise DataError(f"{where} must be a count, got {type(value).__name__}.")


def _check_interval(value: Any, where: str) -> None:
    if value is not None:
        _check_numbers(_mapping(value, where), ("low", "high"), where)


def _check_numbers(row: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    for name in names:
        if row.get(name) is None:
            raise DataError(f"{where} must have a number {name}, got none.")
        _check_number(row[name], f"{name} of {where}")
