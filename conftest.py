"""What pytest must not collect: the package's namespace shows NumPy's docstrings, whose examples are NumPy's."""

collect_ignore = ["tilewise/__init__.py"]
