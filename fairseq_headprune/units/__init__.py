"""What can be pruned: layouts, gates, the learned target. Needs no fairseq."""
