"""Lost workers brought back: plans to run again, copies of blocks, when to copy; errors that travel to the driver."""
