"""Figures and training curves of a finished run in MLflow.

::

    python examples/experiment_tracking.py RUN

Metrics are named SET/FIGURE, such as ``test/ap_area``, and CLASS/ROLE/objective and gap per outer step of training.
"""

import argparse
import csv
import json
from pathlib import Path


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a finished run folder")
    run = parser.parse_args().run
    try:
        import mlflow
    except ImportError:
        parser.exit(2, "mlflow is not installed: pip install mlflow\n")
    sets = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))["sets"]
    with mlflow.start_run(run_name=run.resolve().name):
        for name, entry in sets.items():
            known = {f"{name}/{figure}": value for figure, value in entry["mean"].items() if value is not None}
            mlflow.log_metrics(known)
        with (run / "history.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                prefix = f"{row['class']}/{row['role']}"
                curves = {f"{prefix}/{column}": float(row[column]) for column in ("objective", "gap")}
                mlflow.log_metrics(curves, step=int(row["step"]))
        mlflow.log_artifact(str(run / "run.toml"))


if __name__ == "__main__":
    main()
