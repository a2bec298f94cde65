"""What a plan hands to a backend. In: operators, loop IR. Out: steps, how they can be cut. Sizes come with each run."""
