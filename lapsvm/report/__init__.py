"""The page that shows what a run found."""
