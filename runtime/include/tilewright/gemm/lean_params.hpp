// The types that lean `gemm` kernels and their host code share.
//
// A module's table has the host code once, for all units (lean_host.hpp), because g++ would take longer for it than for
// the rest of a unit. A unit does not include the headers of the host code (launch.hpp and the standard library)
// either: nvcc reads a unit's headers four times, which would take 0.13 s of a unit's 1.5 s.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/gemm/args.h"
#include "tilewright/sm90/epilogue_params.hpp"
#include "tilewright/sm90/parts_params.hpp"
#include "tilewright/sm90/product_params.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::gemm::lean {

struct OwnParams {
  sm90::Raster raster;  // the order of blocks: those of the first part of k, then those of the second, and so on
  int stage_bytes;      // bytes of A and B that arrive in a stage
  sm90::Parts parts;
};

struct Params : sm90::ProductParams, OwnParams, sm90::ProductMaps {
  CUtensorMap c;  // set if `c_by_tma`
};

// The part of D that one TMA store writes.
struct Box {
  int bytes, rows;  // a row's, and how many
  CUtensorMapSwizzle swizzle;
};

// What the host code must know of a kernel or of a form. The kernel's A and B are the caller's B and A where operands
// are `swapped`.
struct Facts {
  int tile_m, tile_n, tile_k;  // elements; tile_k: of a stage
  int bytes, bytes_d;          // of an element of A and B, and of D
  int vector_d;                // elements of D in 16 bytes
  int sums;                    // float4s of a tile's sums (sm90::TileSums); 0 in a plain form
  int threads, shared_bytes;
  sm90::Addend addend_d;        // D's type, as an addend's
  sm90::Activation activation;  // what the kernel is compiled with
  bool mn_a, mn_b, swapped, pdl;
  bool boxes;                  // registers can go to D's boxes directly
  bool c_by_tma;               // TMA can load C into D's boxes
  bool epilogue_through_smem;  // sums can go through the stages' memory
  Box box, shared_box;         // of D: for sums from registers, and for sums through the stages' memory
  void const* (*entry)();
  void const* (*combining_entry)();  // of the kernel that adds up parts in the workspace
};

// The functions of tilewright_kernel (abi.h).
int32_t can_implement(Facts const& facts, void const* args);
int64_t workspace_bytes(Facts const& facts, void const* args);
int32_t launch(Facts const& facts, void const* args, void* workspace, void* stream);

}  // namespace tilewright::gemm::lean
