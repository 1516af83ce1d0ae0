"""What attention heads do, from a dump to tables, figures and a page. README.md is the guide."""
