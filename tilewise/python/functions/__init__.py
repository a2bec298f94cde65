"""Functions of compiled functions: source, arguments, calls. In: trees. Out: values."""
