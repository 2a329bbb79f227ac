"""What a kill leaves behind: one probe for Cortex Plane, DBOS and LangGraph, killed at every boundary of every write."""
