"""Between Arrays and other libraries: buffers, ndarrays, numbers, text and pickles that leave; memory that arrives."""
