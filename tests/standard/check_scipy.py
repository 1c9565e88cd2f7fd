"""SciPy functions on tensors against the same functions on arrays. Needs SCIPY_ARRAY_API=1 before SciPy is imported."""

import numpy as np
import scipy.cluster.vq as vq
import scipy.fft
import scipy.integrate
import scipy.signal
import scipy.special as special
import scipy.stats as stats

import tensorx as tx

FUNCTIONS = {
    "special.erf": special.erf,
    "special.expit": special.expit,
    "special.gammaln": special.gammaln,
    "special.logsumexp": lambda x: special.logsumexp(x, axis=0),
    "special.softmax": lambda x: special.softmax(x, axis=1),
    "special.xlogy": lambda x: special.xlogy(x * x, x * x),
    "stats.zscore": stats.zscore,
    "stats.skew": stats.skew,
    "stats.kurtosis": stats.kurtosis,
    "stats.pearsonr": lambda x: stats.pearsonr(x[:, 0], x[:, 1]),
    "stats.ttest_ind": lambda x: stats.ttest_ind(x[:, 0], x[:, 1]),
    "stats.moment": lambda x: stats.moment(x, 3),
    "stats.entropy": lambda x: stats.entropy(x * x),
    "stats.rankdata": stats.rankdata,
    "fft.rfft": scipy.fft.rfft,
    "fft.ifftn": scipy.fft.ifftn,
    "signal.fftconvolve": lambda x: scipy.signal.fftconvolve(x, x),
    "signal.detrend": scipy.signal.detrend,
    "integrate.trapezoid": scipy.integrate.trapezoid,
    "cluster.vq.whiten": vq.whiten,
    "cluster.vq.vq": lambda x: vq.vq(x, x[:3, :]),
}


def flat(result):
    if isinstance(result, tuple) and hasattr(result, "statistic"):
        return [result.statistic, result.pvalue]
    if hasattr(result, "statistic"):
        return [result.statistic, result.pvalue]
    return list(result) if isinstance(result, (tuple, list)) else [result]


def main():
    a = np.random.default_rng(0).standard_normal((20, 4))
    for name, f in FUNCTIONS.items():
        want, got = flat(f(a)), flat(f(tx.asarray(a)))
        for w, g in zip(want, got, strict=True):
            assert isinstance(g, tx.Tensor), (name, type(g))
            np.testing.assert_allclose(np.asarray(g), w, rtol=1e-9, atol=1e-12, err_msg=name)
    print(len(FUNCTIONS), "functions")


if __name__ == "__main__":
    main()
