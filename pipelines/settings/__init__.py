"""The settings of a run and their options, rules and limits; recipes."""
