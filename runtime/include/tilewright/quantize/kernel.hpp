// The header of generated `quantize` kernels: all kernels, and their adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/adapter.hpp"
#include "tilewright/quantize/args.h"
#include "tilewright/quantize/column.hpp"
#include "tilewright/quantize/dequantize.hpp"
#include "tilewright/quantize/fused_norm.hpp"
#include "tilewright/quantize/square.hpp"
#include "tilewright/quantize/tma.hpp"
#include "tilewright/quantize/vector.hpp"

// Many small thread blocks, of which several keep an SM busy.
#define TILEWRIGHT_QUANTIZE_KERNEL(NAME)                                        \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Quantize, tilewright::LaunchedOnce, \
                    tilewright::NAME::Quantize::Kernel::kMinBlocks, 128)
