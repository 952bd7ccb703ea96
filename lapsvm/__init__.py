"""lapsvm (latent AP-SVM): object detectors from image-level labels, trained on average precision itself."""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """Return the version when it is asked for: reading it takes longer than all else that this import does."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("lapsvm")
