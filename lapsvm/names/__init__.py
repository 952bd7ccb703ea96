"""Names of files, classes and pictures: which mean pictures, which are the same, and how they are written and shown."""
