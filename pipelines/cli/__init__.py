"""The command line's machinery: the application, signals, and the options."""
