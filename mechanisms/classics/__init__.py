"""Five classics, a page each, written with ``import dpaudit as dp`` alone."""
