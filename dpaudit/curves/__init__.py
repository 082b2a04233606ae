"""Privacy profiles of pairs, two-sided and certified."""
from dpaudit.curves import families
