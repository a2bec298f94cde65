"""What operators say about themselves: functions that each operator registers its own answer to, beside its class."""
