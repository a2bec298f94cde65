"""The abstract problem solved: bounds, elimination, branching. In: a Problem. Out: a Solution with its proof."""
