"""Object proposals: windows of a picture that may hold an object."""
