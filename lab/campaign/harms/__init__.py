"""What carries faults out: `Lane` walks a schedule; each part of the rig has a class with a method for each kind."""
