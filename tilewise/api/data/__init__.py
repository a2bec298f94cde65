"""Arrays in files and in other libraries. In: paths, objects. Out: Arrays, files."""
