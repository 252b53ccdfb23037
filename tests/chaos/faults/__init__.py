"""Injectors: functions that cause a fault in a running job of the suite. The catalogue names them, with their arguments."""
