"""Nothing: its file of bytecode is that of all modules (bytecode.py), so that installers know of it and remove it."""
