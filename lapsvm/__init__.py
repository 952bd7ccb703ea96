"""lapsvm (latent AP-SVM): object detectors from image-level labels, trained on average precision itself."""

from importlib.metadata import version

__version__ = version("lapsvm")
__all__ = ["__version__"]
