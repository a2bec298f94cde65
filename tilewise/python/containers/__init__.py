"""Lists, tuples, dicts and sets of compiled functions. In: values. Out: arrays that hold them."""
