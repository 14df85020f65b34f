"""Clones get the colour of the side on which the inside lies."""

import numpy as np
from qtcore_app.clones import UNKNOWN, clone_colours, colours, sides
from qtcore_app.colours import tables
from qtcore_app.drawings import trained


def test_sides_of_a_square() -> None:
    """Clone 0 sits on the left edge of a square, 1 on its upper edge, 2 on all edges, 3 nowhere."""
    labels = np.full((1, 9, 9), 1, np.uint8)
    labels[0, 2:7, 2:7] = 0
    labels[0, 3:6, 3:6] = 2
    clone = np.full((1, 9, 9), 2)
    clone[0, 3:6, 2], clone[0, 2, 3:6] = 0, 1
    result = sides(clone, labels, labels == 0, 4)
    assert np.allclose(result[[0, 1], [1, 0]], 0, atol=1e-9)
    assert (result[[0, 1], [0, 1]] > 0.8).all()  # right, down
    everywhere = sides(np.full((1, 9, 9), 2), labels, labels == 0, 4)
    assert np.allclose(everywhere, 0, atol=1e-9)
    wheel = tables()["wheel"]
    shown = colours(np.array([[1.0, 0.0], [0.0, 0.9], [0.0, 0.0]]))
    assert shown == [wheel[0].tolist(), wheel[64].tolist(), list(UNKNOWN)]


def test_every_clone_of_the_model_has_a_colour() -> None:
    _, model = trained("")
    result = clone_colours(model)
    assert len(result) == model.clones[0]
    assert result is clone_colours(model)
