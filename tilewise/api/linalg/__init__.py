"""np.linalg, np.fft, and products of arrays."""
