"""Checkpoint files: reading, removal of heads, export."""
