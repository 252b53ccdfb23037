"""CloudTrail's event history: which calls were made, by whom."""
