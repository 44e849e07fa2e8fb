// The parameters of `grouped_gemm` kernels, and what their host code must know of a kernel. A module's table has the
// host code once, for all units (host.hpp), as for lean `gemm` kernels (gemm/lean_params.hpp).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/grouped_gemm/args.h"
#include "tilewright/sm90/block_scales.hpp"
#include "tilewright/sm90/divisor.hpp"
#include "tilewright/sm90/epilogue_params.hpp"
#include "tilewright/sm90/product_params.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::grouped_gemm {

using sm90::Scales;

// What the host tells a kernel about rows that belong to groups.
struct Groups {
  int grouping;         // tilewright_grouping
  int const* layout;    // group_of_row, group_ends, rows_valid or group_k
  int groups;           // how many
  int rows;             // of D; of each group's own matrix of D with rows_valid
  int alignment;        // rows; with group_ends, a group starts at a multiple of it
  int k;                // of all groups
  int k_unit;           // groups that divide k have multiples of it: elements of a k tile
  bool zeroes;          // padding is zeroed, also tiles that hold nothing else
  int columns;          // blocks along n
  int swizzle;          // blocks of rows before the next column, as Raster's, where the device finds the tiles
  sm90::Raster raster;  // where the host knows all tiles
  sm90::Shares shares;
};

// How sums reach a D of F32, in tiles whose rows are all stored.
enum class Floats {
  kThreads,  // threads store them, and add C if there is one
  kBoxes,    // TMA stores them; there is no C
  kAdded,    // TMA adds them to what D holds, where C is D
};

// The fields of Heads (tile.hpp) for the host, which cannot compile its functions.
struct HeadFields {
  sm90::Divisor head;
  int right, gap;
  bool skipped;
};

// `HeadsOf`: Heads in a kernel, HeadFields in its host code.
template <class HeadsOf>
struct OwnParamsOf {
  sm90::BlockScales blocks_a, blocks_b;
  Groups groups;
  CUtensorMap const* group_maps;  // where groups divide k: each group's maps of A and of B
  HeadsOf heads;
  Floats floats;
};

template <class HeadsOf>
struct ParamsOf : sm90::ProductParams, OwnParamsOf<HeadsOf>, sm90::ProductMaps {
  CUtensorMap scales_a, scales_b;  // of scale factors of rows (1x128)
};

using HostParams = ParamsOf<HeadFields>;

// The part of D that one TMA store writes.
struct Box {
  int bytes, rows;  // a row's, and how many
  CUtensorMapSwizzle swizzle;
};

// How an operand's rows lie in a stage.
struct StageRows {
  int bits;   // of an element
  int bytes;  // of a row in a box of k
};

// The groups along k of a launch, for `write_parts` (adapter.hpp).
struct PartsOfK {
  CUtensorMap const *a, *b;  // of all of k
  void const *address_a, *address_b;
  int rows_a, rows_b;
  int const* sizes;
  int groups, k;
  CUtensorMap* maps;  // receives two of each group
};

// What the host code must know of a kernel. The kernel's A and B are the caller's B and A where operands are `swapped`.
struct Facts {
  int tile_m, tile_n;  // rows of the kernel's A and B in a tile
  int tile_k;          // elements of k of a stage
  int element_bytes;   // of A and B
  int bytes_d;         // of an element of D
  int lines;           // lines of scale factors of rows in a stage
  int packed_block;    // elements of k that share a packed factor, 32 or 128; 0 if factors are F32
  StageRows rows_a, rows_b;
  int threads, shared_bytes;
  sm90::Addend addend_d;  // D's type, as an addend's
  Scales scales_a, scales_b;
  bool mn_a, mn_b, swapped, pdl;
  bool clusters;     // the kernel runs in clusters, too, and splits k
  bool splits;       // sums can go through the stages' memory
  bool own_maps;     // each group along k has tensor maps of its own
  bool groups_of_k;  // groups may divide k
  bool boxes;        // registers can go to D's boxes directly
  bool floats;       // D is of F32, and TMA stores it
  Box box, float_box;
  // Entries of each Form (form.hpp), launched without clusters and in clusters. Form::kAny is always launched in
  // clusters. The others are null if the kernel has no forms.
  void const* (*forms[4])();
  void const* (*forms_in_clusters[4])();
  // Enqueues the kernel that writes maps of groups along k, if `own_maps`.
  cudaError_t (*write_maps)(PartsOfK const&, cudaStream_t);
};

// The functions of tilewright_kernel (abi.h).
int32_t can_implement(Facts const& facts, void const* args);
int64_t workspace_bytes(Facts const& facts, void const* args);
int32_t launch(Facts const& facts, void const* args, void* workspace, void* stream);

}  // namespace tilewright::grouped_gemm
