"""Ground floor: errors, files, progress, intervals, timing. Imports nothing of ours."""
