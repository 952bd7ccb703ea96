"""Maps over the pictures of a run: where its classes score, and what stands out."""
