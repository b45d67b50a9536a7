"""The machine: processes, locks, files, time, the terminal. It knows nothing of IREE."""
