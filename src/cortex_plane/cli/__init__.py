"""The `cortex` command: the table of commands, output, and commands without a noun."""
