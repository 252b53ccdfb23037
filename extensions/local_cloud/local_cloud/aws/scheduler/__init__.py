"""Amazon EventBridge Scheduler: schedules, and the API calls that they make."""
