"""The system: memory, threads, processes, files and installed packages."""
