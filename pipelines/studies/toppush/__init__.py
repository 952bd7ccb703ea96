"""TopPush's table on a user's data sets."""
