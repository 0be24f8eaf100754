"""How sums over a slice are split: three verbs, and who does the pieces."""
