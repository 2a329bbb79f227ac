"""Executors of other people's graphs, each in a folder of its own that is imported only when such a graph is given."""
