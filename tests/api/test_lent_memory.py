"""What NumPy reads of an Array's memory: dtypes that buffers cannot tell, arrays made on a buffer."""

import numpy as np
import pytest

import tilewise as tw

DTYPES = ["i4,O", "V4", np.dtype("i1,f8", align=True), "M8[D]", "U3", "i4,(2,)f8", "O", ">i4"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtype_and_values_arrive(dtype: object) -> None:
    want = np.ones((2, 3), dtype)  # type: ignore[call-overload]
    got = np.asarray(tw.array(want))
    assert (got.dtype, got.dtype.names, got.dtype.isalignedstruct) == (
        want.dtype,
        want.dtype.names,
        want.dtype.isalignedstruct,
    )
    assert str(got.tolist()) == str(want.tolist())


@pytest.mark.parametrize("dtype", ["i8", "M8[D]"])
@pytest.mark.parametrize("eager_bytes", [0, 1 << 20])
def test_an_array_made_on_a_buffer_keeps_the_memory(dtype: str, eager_bytes: int) -> None:
    with tw.config(eager_bytes=eager_bytes):
        x = tw.arange(1000).astype(dtype)
        made = np.ndarray(1000, dtype, buffer=x)
        want = made.copy()
        x += np.ones((), "m8[D]" if dtype[0] == "M" else dtype)
        assert int(x.astype("i8").sum()) == 500500
        others = [(tw.arange(1000) * k).compute().astype(dtype) for k in range(20)]  # memory that was given back
    assert np.array_equal(made, want) and len(others) == 20
