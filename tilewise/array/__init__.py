"""Arrays: cells (the only mutable thing), handles on them, recording, forcing, sessions."""
