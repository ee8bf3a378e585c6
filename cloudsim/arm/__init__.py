"""Azure Resource Manager as far as gpulease speaks it: virtual machines, their disks, networks, sizes and limits."""
