"""What passes ask about values and operations; nothing here changes a program."""
