// What a lean `gemm` kernel and its host share. A unit is compiled without the host's code, which takes g++ longer than
// what the unit needs of it: a module's table has it once, for all of them (lean_host.hpp). Nor does a unit read that
// code's headers, launch.hpp and the standard library's that it includes: 0.13 s, of 1.5, in four passes over them.
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
  sm90::Raster raster;  // of the blocks of every part of k
  int stage_bytes;      // of A and B, that arrive
  sm90::Parts parts;
};

struct Params : sm90::ProductParams, OwnParams, sm90::ProductMaps {
  CUtensorMap c;  // where `boxes_c`
};

// Of D, that one TMA store writes.
struct Box {
  int bytes, rows;  // a row's, and how many
  CUtensorMapSwizzle swizzle;
};

// A kernel as its host knows it. Its A and B are the caller's B and A where they are `swapped`.
struct Facts {
  int tile_m, tile_n, tile_k;  // elements; of k, those of a stage
  int bytes, bytes_d;          // of an element of A and B, and of D
  int vector_d;                // elements of D in 16 bytes
  int sums;                    // float4s of a tile's (sm90::TileSums)
  int threads, shared_bytes;
  sm90::Addend addend_d;        // D's type, as what an epilogue adds is called
  sm90::Activation activation;  // that it is compiled with
  bool mn_a, mn_b, swapped, pdl;
  bool boxes;           // D can go from registers to boxes at once
  bool boxes_c;         // and C come so
  bool exchanges;       // sums can go through the stages' memory
  Box box, shared_box;  // of sums from registers, and through the stages' memory
  void const* (*entry)();
  void const* (*combining_entry)();  // of the kernel that adds up parts that meet in memory
};

// As tilewright_kernel's (abi.h).
int32_t can_implement(Facts const& facts, void const* args);
int64_t workspace_bytes(Facts const& facts, void const* args);
int32_t launch(Facts const& facts, void const* args, void* workspace, void* stream);

}  // namespace tilewright::gemm::lean
