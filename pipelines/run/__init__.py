"""What a run is: its folder, with a lock and the files that are ours, its data set, and its progress."""
