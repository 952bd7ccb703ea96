"""Pictures with boxes and maps drawn, and the files that they become."""
