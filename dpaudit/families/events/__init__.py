"""Events of small probability, groups of records, and propose-test-release."""

from dpaudit.families.events.node import EventSlack, Group, ProposeTestRelease

__all__ = ["EventSlack", "Group", "ProposeTestRelease"]
