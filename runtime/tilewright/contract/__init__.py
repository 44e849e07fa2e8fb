"""The contract that every public op keeps, whatever its family, as tests for pytest.

The tests replace the arguments of a few complete calls in turn: by other types, shapes, devices, addresses,
aliases, by what requires gradients, by what no caller should pass. They hold torch's ops, prepared calls,
declarations and measuring to the same. A test module of a family asks all of it:

    from tilewright.contract.suite import *

    CONTRACT = [FamilyCalls("relu_rows", {"relu_rows": [everything]})]

`tilewright.contract.cases` says what `FamilyCalls` holds. Needs pytest, numpy, torch and a C++ compiler;
nothing that serves imports it.
"""

import pytest

TESTS = ("arguments", "declarations", "forward_ad", "graphs", "hostile", "measuring", "prepared")

pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in TESTS))
