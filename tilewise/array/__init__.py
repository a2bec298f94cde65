"""Arrays: cells (memory that programs write to), handles on them, recording, forcing, sessions."""
