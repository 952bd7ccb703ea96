"""What each part of a recipe contributes."""
