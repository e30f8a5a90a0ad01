"""How fast each queue is: measured side by side in one run, shown as ratios."""
