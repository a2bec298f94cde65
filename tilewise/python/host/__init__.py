"""What compiled functions call through Python. In: functions, values. Out: values of known types."""
