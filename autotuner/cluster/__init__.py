"""Many machines by Dask: one coordinator owns store and search; workers build, and those with a device time."""
