"""Between processes: connections, frames on them, and the protocol by which workers send pieces."""
