# Makes the .npy files of the tests: python3 make.py, with numpy.
import numpy as np

a = np.array([[0, 1048576, 7], [5, 0, 0], [0, 200, 3]])
for name, array in {
    "f8": a.astype("<f8"), "f4": a.astype("<f4"), "i8": a.astype("<i8"), "u4": a.astype("<u4"), "big": a.astype(">i8"),
    "i2": (a % 1000).astype("<i2"), "fortran": np.asfortranarray(a.astype("<f8")),
    "bad-negative": -a, "bad-nan": np.full((2, 2), np.nan), "bad-fraction": a + 0.5, "bad-shape": np.zeros((2, 3)), "bad-line": np.zeros(4),
    "bad-complex": a.astype(complex), "bad-text": a.astype(str),
}.items():
    np.save(name + ".npy", array)
np.savez("bad-zip.npz", a)
