"""One file for each noun. A new one is mounted by one line in the list of `mounting.py`."""
