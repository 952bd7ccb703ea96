"""The entry and the verbs of the command line."""
