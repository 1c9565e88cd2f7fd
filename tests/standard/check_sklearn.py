"""scikit-learn estimators and metrics on tensors against the same on arrays. Needs SCIPY_ARRAY_API=1."""

import warnings

import numpy as np
import sklearn
from sklearn import metrics
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

import tensorx as tx

ESTIMATORS = {
    "StandardScaler": lambda x, y, t: StandardScaler().fit_transform(x),
    "MinMaxScaler": lambda x, y, t: MinMaxScaler().fit_transform(x),
    "MaxAbsScaler": lambda x, y, t: MaxAbsScaler().fit_transform(x),
    "Normalizer": lambda x, y, t: Normalizer().fit_transform(x),
    "PCA, full": lambda x, y, t: PCA(2, svd_solver="full").fit_transform(x),
    "PCA, covariance": lambda x, y, t: PCA(2, svd_solver="covariance_eigh").fit(x).transform(x),
    "PCA, inverse": lambda x, y, t: (lambda p: p.inverse_transform(p.transform(x)))(PCA(3, svd_solver="full").fit(x)),
    "Ridge": lambda x, y, t: Ridge(solver="svd").fit(x, t).predict(x),
    "LinearDiscriminantAnalysis": lambda x, y, t: LinearDiscriminantAnalysis().fit(x, y).predict_proba(x),
    "train_test_split": lambda x, y, t: train_test_split(x, random_state=0)[0],
    "cosine_similarity": lambda x, y, t: metrics.pairwise.cosine_similarity(x),
    "rbf_kernel": lambda x, y, t: metrics.pairwise.rbf_kernel(x),
}
METRICS = {
    "r2_score": lambda x, y, t: metrics.r2_score(t, t + x[:, 0]),
    "mean_squared_error": lambda x, y, t: metrics.mean_squared_error(t, t + x[:, 0]),
    "accuracy_score": lambda x, y, t: metrics.accuracy_score(y, 1 - y),
    "f1_score": lambda x, y, t: metrics.f1_score(y, y),
}


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4))
    y = (x[:, 0] + 0.3 * x[:, 1] > 0).astype(np.int64)
    t = x @ np.array([1.0, 2.0, 3.0, 4.0])
    data = [tx.asarray(v) for v in (x, y, t)]
    for name, f in {**ESTIMATORS, **METRICS}.items():
        want = f(x, y, t)
        with sklearn.config_context(array_api_dispatch=True):
            got = f(*data)
        assert name in METRICS or isinstance(got, tx.Tensor), (name, type(got))
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-7, atol=1e-10, err_msg=name)
    print(len(ESTIMATORS), "estimators and", len(METRICS), "metrics")


if __name__ == "__main__":
    main()
