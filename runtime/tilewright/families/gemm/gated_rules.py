"""The rules for `gemm` kernels with a gated activation (`rules` has the others)."""

from __future__ import annotations

from tilewright.configurations.rule import OURS, Rule, of_module, rule
from tilewright.families.gemm.config import GemmConfig
from tilewright.families.gemm.memory import warpgroups
from tilewright.families.gemm.problem import GATED, GATED_OUTPUTS, PAIRED_COLUMNS


# sm90/gated.hpp: 8 rows of each half of B alternate in a tile, and D is stored in elements of 16 bits.
@rule(OURS, "activation mainloop layout d tile schedule swap_ab")
def gated_product(config: GemmConfig) -> str | None:
    """A gated activation is one of lean kernels, whose operands have k contiguous and whose D has 16 bits.
    Each warpgroup has a multiple of 16 columns, unless operands are swapped."""
    if config.activation not in GATED:
        return None
    if config.mainloop != "lean":
        return f"only lean kernels apply {config.activation}, not {config.mainloop} ones"
    if config.layout != "tn":
        return f"{config.activation} needs k contiguous in A and B: layout tn, not {config.layout}"
    if config.d not in GATED_OUTPUTS:
        return f"D of {config.activation} is {' or '.join(GATED_OUTPUTS)}, not {config.d}"
    columns = warpgroups(config).columns
    if not config.swap_ab and columns % PAIRED_COLUMNS:
        return f"{columns} columns of a warpgroup are not a multiple of {PAIRED_COLUMNS}, gate and up in turn"
    return None


RULES: tuple[Rule, ...] = of_module(__name__)
