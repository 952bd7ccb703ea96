"""One module a format, with the functions that `lapsvm.annotations.table` names."""
