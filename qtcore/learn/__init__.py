"""Learning: query training, and the baselines that the paper compares with."""
