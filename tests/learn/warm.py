"""Imported by the server of `children`: what takes its time is done once for all of them."""

import torch

import qtcore

from . import children

children.load("digits")
torch.set_num_threads(1)  # a thread would not survive a fork
qtcore.fit(qtcore.RBM(2, 2), torch.zeros(2, 2), steps=1)  # what torch imports at the first step
