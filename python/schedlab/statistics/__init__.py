"""What numbers say: functions of arrays, which know no files, drawings or schedulers."""
