"""Pictures of any kind as 8-bit RGB, and what a picture lacks that shows nothing."""
