"""Text in, text out, and its score."""
