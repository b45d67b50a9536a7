"""What brings a configuration to its operation: tuning specs, flags, substituted executables, microkernels."""
