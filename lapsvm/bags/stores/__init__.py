"""Where the windows of bags lie: in this process, in others, or on a GPU."""
