"""Estimators for scikit-learn on rows with numbers, words and gaps: one that fills the gaps, and one that predicts any column.

    QueryTrainedImputer().fit_transform(X)                   # X with its gaps filled
    QueryTrainedImputer().fit(X).sample(X, 5)                # five completions, drawn jointly
    classifier = QueryTrainedClassifier().fit(X, y)
    classifier.predict_proba(X)                              # of y, whatever is missing in X
    classifier.set_params(target="age").predict_proba(X)     # of a column of X, without training again

X is a DataFrame or an array; columns without names are called x0, x1, … . A pickled estimator holds its model as the bytes of a
safetensors file, which are validated like any model file when it is unpickled.
"""

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from qtcore.errors import InputError
from qtcore.learn.query_training import Progress
from qtcore.learn.table_training import LEAST_ROWS, fit_table
from qtcore.models.files import from_bytes
from qtcore.models.table_model import TableModel
from qtcore.tabular import Column, Table
from qtcore.tabular.reading import Cells, cells_of, number, text

MODEL = "model_"


class _Estimator(BaseEstimator):
    """What both share: reading X, training, and pickling the model as a safetensors file."""

    model_: TableModel | None
    feature_names_in_: Any
    n_features_in_: int

    def __init__(self, minutes: float, max_iter: int | None, n_hidden: int | None, schema: Any, random_state: Any) -> None:
        self.minutes = minutes
        self.max_iter = max_iter
        self.n_hidden = n_hidden
        self.schema = schema
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _read(self, X: Any, fitting: bool = False, **y: Any) -> tuple[Any, Cells]:
        """X as it is, checked, and its cells by column."""
        if hasattr(X, "columns") and hasattr(X, "shape"):
            validate_data(self, X, reset=fitting, skip_check_array=True)
            if len(X) < (LEAST_ROWS if fitting else 1):
                raise InputError(f"Found {len(X)} sample(s), but it takes {LEAST_ROWS if fitting else 1}.")
            columns = list(cells_of(X).values())
        else:
            least = LEAST_ROWS if fitting else 1
            X = validate_data(self, X, reset=fitting, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=least)
            columns = list(cells_of(X).values())
        return X, dict(zip(self._names(), columns, strict=True))

    def _names(self) -> list[str]:
        return [str(name) for name in getattr(self, "feature_names_in_", ())] or [f"x{k}" for k in range(self.n_features_in_)]

    def _train(self, cells: Cells, extra: dict[str, Column]) -> TableModel | None:
        """A model of these cells; None if there is nothing to learn, as all columns are constant."""
        overrides = dict(self.schema or {}) | extra
        table = Table(cells, overrides)
        for column in table.schema:  # here numbers are numbers, even if no two are equal
            numbers = {number(cell) for cell in cells[column.name] if cell is not None}
            if column.kind == "ignore" and column.name not in overrides and len(numbers) > 1 and None not in numbers:
                overrides[column.name] = "real"
        table = Table(cells, overrides)
        if not table.schema.used:
            return None
        steps: dict[str, Any] = {} if self.max_iter is None else {"steps": self.max_iter}
        seed = int(check_random_state(self.random_state).randint(2**31))

        def count(progress: Progress) -> None:
            self.n_iter_ = progress.step

        return fit_table(table, self.minutes, n_hidden=self.n_hidden, callback=count, seed=seed, **steps)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if isinstance(state.get(MODEL), TableModel):
            state[MODEL] = state[MODEL].to_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state.get(MODEL), bytes):
            state = state | {MODEL: from_bytes(state[MODEL])}
        super().__setstate__(state)


class QueryTrainedImputer(OneToOneFeatureMixin, TransformerMixin, _Estimator):
    """Fills gaps with what a query-trained model of all columns expects: the most probable level, the expected number.

    Args:
        minutes: about how long to train.
        max_iter: steps of training, in the place of `minutes`: the same seed then gives the same result everywhere.
        n_hidden: hidden units; by default by the number of rows.
        schema: what some columns are, as for `qtcore.Table`.
        random_state: of the training, and of `sample`.

    Example:
        >>> import numpy as np
        >>> from qtcore.sklearn import QueryTrainedImputer
        >>> X = np.array([[0.0, 1.0], [1.0, 0.0]] * 20)
        >>> X[0, 1] = np.nan
        >>> QueryTrainedImputer(max_iter=100, random_state=0).fit_transform(X)[0]
        array([0., 1.])
    """

    def __init__(
        self,
        minutes: float = 1.0,
        max_iter: int | None = None,
        n_hidden: int | None = None,
        schema: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(minutes, max_iter, n_hidden, schema, random_state)

    def fit(self, X: Any, y: Any = None) -> "QueryTrainedImputer":
        """Train on the rows of X, gaps and all; y is ignored."""
        X, cells = self._read(X, fitting=True)
        self.model_ = self._train(cells, {})
        array = np.asarray(X)
        self.types_ = {name: _type(array[:, place]) for place, name in enumerate(cells)}
        known = {name: [cell for cell in own if cell is not None] for name, own in cells.items()}
        self.statistics_ = {name: max(sorted(set(own)), key=own.count) for name, own in known.items() if own}
        return self

    def transform(self, X: Any) -> Any:
        """X with its gaps filled; in a column that is no use for learning, by its most frequent value.

        An array, or a DataFrame if X is one that does not hold numbers alone.
        """
        check_is_fitted(self)
        X, cells = self._read(X)
        return self._filled(X, cells, {} if self.model_ is None else self.model_.fill(self._known(cells)).cells)

    def sample(self, X: Any, n: int = 1) -> Any:
        """Completions of every row of X, their gaps drawn jointly [n, rows, columns]."""
        check_is_fitted(self)
        X, cells = self._read(X)
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise InputError(f"n must be a whole number of samples ≥ 1, not {n!r}.")
        generator = torch.Generator().manual_seed(int(check_random_state(self.random_state).randint(2**31)))
        if self.model_ is None:
            return np.stack([np.asarray(self._filled(X, cells, {}))] * int(n))
        drawn = self.model_.sample(self._known(cells), int(n), generator=generator).cells
        each = [{name: own[k::n] for name, own in drawn.items()} for k in range(n)]
        return np.stack([np.asarray(self._filled(X, cells, filled)) for filled in each])

    def _known(self, cells: Cells) -> Cells:
        assert self.model_ is not None
        return {name: own for name, own in cells.items() if name in self.model_.schema}

    def _filled(self, X: Any, cells: Cells, filled: Cells) -> Any:
        """An array of X with its gaps from `filled`, or else the most frequent values."""
        array = np.array(X, copy=True)
        for place, (name, own) in enumerate(cells.items()):
            for row in (row for row, cell in enumerate(own) if cell is None):
                new = filled[name][row] if name in filled else None
                new = self.statistics_.get(name) if new is None else new
                if new is not None:
                    array[row, place] = self._value(name, new)
        return array if array.dtype != object or not hasattr(X, "columns") else _framed(array, X)

    def _value(self, name: str, cell: str) -> Any:
        """A cell's text as a value of the kind that its column held in training."""
        if self.types_[name] is bool:
            return cell == "True"
        return float(cell) if self.types_[name] is float else cell


def _type(values: Any) -> type:
    """What a column holds, apart from gaps: words, truth values or numbers."""
    known = [value for value in values if text(value) is not None]
    if any(isinstance(value, str) or number(str(value)) is None for value in known):
        return bool if all(isinstance(value, bool | np.bool_) for value in known) else str
    return float


def _framed(array: Any, X: Any) -> Any:
    """An array as a DataFrame like X, each column of one type."""
    columns = {}
    for place, name in enumerate(X.columns):
        values = list(array[:, place])
        numbers = all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)
        whole = numbers and all(float(value).is_integer() for value in values)
        columns[name] = [int(value) if whole else float(value) for value in values] if numbers else values
    frame = type(X)(columns)
    return frame.set_axis(X.index, axis=0) if hasattr(X, "index") else frame


class QueryTrainedClassifier(ClassifierMixin, _Estimator):
    """Probabilities of a class, or after training of any other column, given whatever is known.

    Args:
        target: the column to predict: None for y, or one of X, which may be changed after training.
        minutes, max_iter, n_hidden, schema, random_state: as for a `QueryTrainedImputer`.

    Example:
        >>> import numpy as np
        >>> from qtcore.sklearn import QueryTrainedClassifier
        >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0]] * 20), np.array(["a", "b"] * 20)
        >>> classifier = QueryTrainedClassifier(max_iter=100, random_state=0).fit(X, y)
        >>> classifier.predict([[0.0, np.nan]])
        array(['a'], dtype='<U1')
        >>> classifier.set_params(target="x1").predict([[0.0, np.nan]])
        array([1.])
    """

    def __init__(
        self,
        target: str | None = None,
        minutes: float = 1.0,
        max_iter: int | None = None,
        n_hidden: int | None = None,
        schema: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(minutes, max_iter, n_hidden, schema, random_state)
        self.target = target

    def fit(self, X: Any, y: Any) -> "QueryTrainedClassifier":
        """Train on the rows of X beside their classes y."""
        if y is None:
            raise InputError("requires y to be passed, but the target y is None.")
        X, cells = self._read(X, fitting=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if len(y) != len(X):
            raise InputError(f"X has {len(X)} rows, but y has {len(y)}.")
        self.y_classes_, codes = np.unique(y, return_inverse=True)
        if len(self.y_classes_) < 2:
            raise InputError("there is only one class in y, and it takes two to learn to tell them apart.")
        self.y_name_ = "class"
        while self.y_name_ in cells:
            self.y_name_ = f"_{self.y_name_}"
        column = Column(self.y_name_, "categorical", tuple(map(str, range(len(self.y_classes_)))))
        self.model_ = self._train(cells | {self.y_name_: [str(code) for code in codes]}, {self.y_name_: column})
        return self

    @property
    def classes_(self) -> Any:
        """The classes that `predict_proba` gives the probabilities of: those of y; of a column of levels, these; of a column of
        numbers, the means of its bins."""
        if self.target is None:
            return self.y_classes_
        column = self._model().schema[self.target]
        self._model().schema.place(self.target)  # whether it is used
        values = column.mean if column.is_number else [number(level) for level in column.levels]
        return np.array(column.levels if None in values else values)

    def _model(self) -> TableModel:
        check_is_fitted(self)
        assert self.model_ is not None  # y has two classes
        return self.model_

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class [rows, classes]; what X holds in the column that is asked about is left out."""
        model = self._model()
        _, cells = self._read(X)
        name = self.y_name_ if self.target is None else self.target
        return model.ask(cells, about=name)[name].probs

    def predict(self, X: Any) -> Any:
        """The most probable class of each row; of a column of numbers, the expected number."""
        probs = self.predict_proba(X)
        if self.target is not None and self._model().schema[self.target].is_number:
            return probs @ self.classes_
        return self.classes_[probs.argmax(1)]
