"""Contours: the truth of a drawing."""

import numpy as np
import torch
from qtcore_app.drawings import labels_of
from qtcore_app.pictures import drawings

from qtcore.data.border import CONTOUR, IN, OUT, border_labels


def test_what_a_drawing_encloses_is_inside() -> None:
    image = torch.zeros(9, 12, dtype=torch.bool)
    image[2:6, 2:6] = image[3:7, 8:11] = True
    image[4, 4] = False  # a hole of one pixel: all of it is contour
    labels = border_labels(image)
    drawn = np.where(labels.numpy() == CONTOUR, 255, 0).astype(np.uint8)
    assert torch.equal(labels_of(drawn), labels)


def test_an_open_line_encloses_nothing_and_a_diagonal_one_is_closed() -> None:
    ring = np.zeros((7, 7), np.uint8)
    for y, x in ((1, 3), (2, 2), (3, 1), (4, 2), (5, 3), (4, 4), (3, 5), (2, 4)):
        ring[y, x] = 255
    assert (labels_of(ring) == IN).sum() == 5  # corners keep it closed
    ring[1, 3] = 0
    assert not (labels_of(ring) == IN).any()
    assert (labels_of(np.zeros((3, 4), np.uint8)) == OUT).all()
    assert (labels_of(np.full((3, 4), 255, np.uint8)) == CONTOUR).all()


def test_the_twelve_drawings_of_the_documentation() -> None:
    made = drawings()
    assert len(made) == 12
    assert {labels.shape for labels in made} == {(30, 30), (46, 46)}
    assert [bool((labels == IN).any()) for labels in made] == [True] * 11 + [False]  # the last one is an open line
    for labels in made[:-1]:
        drawn = np.where(labels == CONTOUR, 255, 0).astype(np.uint8)
        enclosed = labels_of(drawn).numpy() != OUT
        assert (enclosed >= (labels != OUT)).all()  # whatever is inside is enclosed by its contour
