"""Programs that measure a machine, here and in virtual machines."""
