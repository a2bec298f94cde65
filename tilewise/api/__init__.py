"""The NumPy namespace: one file per family. Functions decide between at once, recorded, and falling back to NumPy."""
