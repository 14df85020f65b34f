"""The estimators, as scikit-learn sees them and as what they are."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from qtcore.errors import InputError
from qtcore.sklearn import QueryTrainedClassifier, QueryTrainedImputer

RNG = np.random.default_rng(0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [QueryTrainedImputer(max_iter=10, n_hidden=2), QueryTrainedClassifier(max_iter=30, n_hidden=4)], xfail_strict=False
)
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def people(n: int = 120, gaps: float = 0.2) -> pd.DataFrame:
    """A name that tells the group, a number that is ten times the group, a whole number and a truth value beside them."""
    group = RNG.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "name": np.array(["ann", "bob", "cy"])[group],
            "height": 10.0 * group + RNG.normal(0, 0.5, n),
            "steps": RNG.integers(0, 5, n),
            "tall": group == 2,
        }
    ).astype(object)
    return frame.mask(RNG.random(frame.shape) < gaps, None)


def test_gaps_are_filled_from_the_other_columns() -> None:
    frame = people()
    imputer = QueryTrainedImputer(max_iter=150, random_state=0).fit(frame)
    assert list(imputer.get_feature_names_out()) == list(imputer.feature_names_in_) == list(frame.columns)
    filled = imputer.transform(frame)
    known = frame.notna()
    assert (filled == frame)[known].equals(frame.where(known).notna().where(known, np.nan).astype(object))
    assert [str(kind) for kind in filled.dtypes] == ["str", "float64", "int64", "bool"]
    assert filled.index.equals(frame.index)
    row = pd.DataFrame({"name": ["cy", None], "height": [None, 10.1], "steps": [1, 2], "tall": [None, None]}, index=["a", "b"])
    filled = imputer.transform(row)
    assert filled.index.tolist() == ["a", "b"]
    assert filled["height"]["a"] == pytest.approx(20, abs=3)
    assert bool(filled["tall"]["a"])
    assert filled["name"]["b"] == "bob"


def test_arrays_and_output_as_asked_for() -> None:
    X = load_iris().data.copy()
    X[RNG.random(X.shape) < 0.2] = np.nan
    imputer = QueryTrainedImputer(max_iter=60, random_state=0)
    filled = imputer.fit_transform(X)
    assert filled.dtype == np.float64
    assert np.isfinite(filled).all()
    assert np.array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    frame = imputer.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == ["x0", "x1", "x2", "x3"]
    assert np.array_equal(frame.to_numpy(), filled)


def test_samples_are_completions() -> None:
    X = np.array([[0.0, 0.0], [1.0, 1.0]] * 30)
    X[0, 1], X[1] = np.nan, np.nan
    imputer = QueryTrainedImputer(max_iter=400, random_state=0).fit(X)
    samples = imputer.sample(X, 200)
    assert samples.shape == (200, 60, 2)
    assert np.array_equal(samples[:, 2:], np.broadcast_to(X[2:], (200, 58, 2)))
    assert samples[:, 0, 1].mean() < 0.1
    assert (samples[:, 1, 0] == samples[:, 1, 1]).mean() > 0.9
    assert 0.2 < samples[:, 1, 0].mean() < 0.8
    assert np.array_equal(imputer.sample(X, 2), imputer.sample(X, 2))
    with pytest.raises(InputError, match="n must be a whole number"):
        imputer.sample(X, 0)


def test_columns_that_are_no_use_are_filled_with_their_most_frequent_value() -> None:
    X = pd.DataFrame({"a": ["x", "y"] * 15, "b": [7.0] * 29 + [None], "c": [None] * 30})
    filled = QueryTrainedImputer(max_iter=5).fit_transform(X)
    assert filled["b"].tolist() == [7.0] * 30
    assert filled["c"].isna().all()
    constant = np.array([[7.0, 1.0]] * 20 + [[np.nan, 1.0]])
    imputer = QueryTrainedImputer(max_iter=5).fit(constant)
    assert imputer.transform(constant)[-1].tolist() == [7, 1]
    assert imputer.sample(constant, 2).shape == (2, 21, 2)


def test_a_classifier_of_any_column_in_a_pipeline() -> None:
    frame = people(300)
    y = np.where(frame["height"].fillna(0) > 15, "high", "low")
    classifier = QueryTrainedClassifier(max_iter=150, random_state=0).fit(frame, y)
    assert classifier.classes_.tolist() == ["high", "low"]
    row = pd.DataFrame({"name": ["cy", "ann"], "height": [20.0, None], "steps": [None, 1], "tall": [None, None]})
    probs = classifier.predict_proba(row)
    assert probs.sum(1) == pytest.approx(1)
    assert classifier.predict(row).tolist() == ["high", "low"]
    before = clone(classifier)
    classifier.set_params(target="name")
    assert classifier.classes_.tolist() == ["ann", "bob", "cy"]
    other = pd.DataFrame({"name": ["cy"], "height": [9.8], "steps": [1], "tall": [False]})
    assert classifier.predict(other).tolist() == ["bob"]
    assert classifier.set_params(target="height").predict(row)[0] == pytest.approx(20, abs=3)
    assert before.target is None
    with pytest.raises(InputError, match="no column named 'nme'; did you mean name"):
        classifier.set_params(target="nme").predict(row)
    with pytest.raises(NotFittedError):
        before.predict(row)


def test_in_a_pipeline() -> None:
    X, y = load_iris(return_X_y=True)
    X[RNG.random(X.shape) < 0.2] = np.nan
    pipeline = make_pipeline(QueryTrainedImputer(max_iter=80, random_state=0), LogisticRegression(max_iter=500))
    assert pipeline.fit(X, y).score(X, y) > 0.85


def test_a_pickled_estimator_holds_its_model_as_a_file() -> None:
    X, y = load_iris(return_X_y=True)
    classifier = QueryTrainedClassifier(max_iter=20, random_state=0).fit(X, y)
    state = classifier.__getstate__()
    assert isinstance(state["model_"], bytes)
    again = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(again.predict_proba(X), classifier.predict_proba(X))
    with pytest.raises(OSError, match="not a complete safetensors file"):
        again.__setstate__(state | {"model_": state["model_"][:-9]})
    unfitted = pickle.loads(pickle.dumps(QueryTrainedImputer(minutes=2)))
    assert unfitted.get_params()["minutes"] == 2


def test_overrides_and_columns_without_names() -> None:
    X = np.array([[1, 2, 3] * 20, [4, 5] * 30]).T
    classifier = QueryTrainedClassifier(max_iter=5, schema={"x0": "categorical"}).fit(X, X[:, 1])
    assert classifier.model_.schema["x0"].kind == "categorical"
    assert classifier.set_params(target="x0").classes_.tolist() == [1, 2, 3]
    with pytest.raises(InputError, match="only one class"):
        classifier.fit(X, X[:, 1] * 0)
    with pytest.raises(InputError, match="Found 3 sample"):
        classifier.fit(pd.DataFrame(X[:3]), X[:3, 1])
