"""Programs on processes of this machine beside Dask distributed and NumPy: times, bytes, control cost, growth."""
