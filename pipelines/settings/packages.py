"""The optional packages that a command needs, imported before its work: hours may lie before their first use."""

from collections.abc import Collection


def check_packages(
    *,
    extractors: Collection[str] = (),
    objectness: str = "",
    executor: str = "local",
    metrics: Collection[str] = (),
    onnx_precision: str = "",
) -> None:
    """Raise DependencyError, which names the extra, unless everything that a command will import is installed.

    Windows need no line here: the check of settings proposes some, and `Predictor.open` asks their source.

    Parameters
    ----------
    extractors : collection of str
        Their texts; none where features are stored.
    objectness : str
        The text of its source; "" where none is opened.
    executor : str
    metrics : collection of "voc", "coco"
    onnx_precision : str
        "float32" or "int8" where a detector is exported as one file.
    """
    if extractors:
        from lapsvm.features.extractors import extractor

        extractor.check_packages(extractors)
    if objectness:
        from lapsvm.objectness import opening

        opening.check_packages(objectness)
    if executor != "local":
        from lapsvm.cluster import load_dask

        load_dask()
    if "coco" in metrics:
        from lapsvm.evaluation.coco import load_evaluator

        load_evaluator()
    if onnx_precision:
        from lapsvm.detection.onnx_file import check_packages as check_onnx

        check_onnx(in_8_bits=onnx_precision == "int8")
