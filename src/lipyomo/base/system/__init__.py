"""The machine: its memory, processes and files, and the packages that are installed."""
