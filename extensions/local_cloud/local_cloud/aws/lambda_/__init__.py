"""AWS Lambda: functions, and their invocations."""
