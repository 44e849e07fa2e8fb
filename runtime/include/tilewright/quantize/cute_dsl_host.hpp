// The host code of `quantize` kernels that are written in CuTe-DSL (cute_dsl.hpp), compiled once, in a module's table.
#pragma once

#include <vector_functions.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "tilewright/adapter.hpp"
#include "tilewright/program_host.hpp"
#include "tilewright/quantize/cute_dsl.hpp"
#include "tilewright/sm90/matrices.hpp"

#ifndef __CUDACC__
// geometry.hpp has device functions, too, which name these. The host calls none of them.
inline uint32_t __shfl_xor_sync(unsigned, uint32_t value, int) { return value; }
inline float __shfl_xor_sync(unsigned, float value, int) { return value; }
inline uint32_t __byte_perm(uint32_t x, uint32_t, uint32_t) { return x; }
#endif
#include "tilewright/quantize/geometry.hpp"

namespace tilewright::quantize::cute_dsl {

namespace {  // so that g++ inlines functions that are called once

// The parameters of a kernel's function: `Params` of quantize/nvfp4_program.py, then, with TMA, the map of x and the
// extents of its modes.
struct Parameters {
  quantize::Params shared;
  int32_t layout, scale_per_row;
  CUtensorMap map;
  int32_t extents[3];

  static constexpr int kCount = 25;

  // The driver reads as many as the kernel has.
  void addresses(void* (&list)[kCount]) {
    void* const all[] = {&shared.x,
                         &shared.data,
                         &shared.scales,
                         &shared.global_scale,
                         &shared.rows_valid,
                         &shared.row_x,
                         &shared.group_x,
                         &shared.row_data,
                         &shared.group_data,
                         &shared.group_scales,
                         &shared.m,
                         &shared.k,
                         &shared.columns,
                         &shared.padded_columns,
                         &shared.padded_rows,
                         &shared.row_tasks,
                         &shared.total_row_tasks,
                         &shared.column_tasks,
                         &shared.chunks,
                         &shared.row_step,
                         &shared.column_step,
                         &layout,
                         &scale_per_row,
                         &map,
                         extents};
    static_assert(sizeof all == sizeof list, "a kernel of CuTe-DSL has another number of parameters");
    std::copy(std::begin(all), std::end(all), list);
  }
};

constexpr int kDataBits = 4, kDataBytes = 8, kBlock = 16;  // NVFP4's; a thread stores 8 bytes

struct Host {
  using Args = tilewright_quantize_args;

  Facts const& facts;

  bool can_implement(Args const& args) const { return takes(args, facts.x_bits, kDataBits, kDataBytes, true); }

  int64_t workspace_bytes(Args const&) const { return 0; }

  cudaError_t enqueue(Context const& context, Args const& args, void*, cudaStream_t stream) const {
    LaunchShape shape{};
    shape.grid = shape.cluster = shape.preferred = dim3(1);
    shape.block = dim3(facts.threads);
    shape.smem_bytes = facts.shared_bytes;
    shape.pdl = facts.pdl;
    LoadedProgram const* loaded = nullptr;
    if (cudaError_t const error = load(facts.program(), context, shape, loaded); error != cudaSuccess) {
      return error;
    }
    Parameters parameters{};
    set_params(args, parameters.shared, facts.x_bits, kDataBits, kBlock, true, facts.box_rows / kRows,
               facts.box_columns);
    lengthen_tasks(args, parameters.shared);
    shape.grid = dim3(set_grid(args, parameters.shared));
    parameters.layout = args.layout;
    parameters.scale_per_row = parameters.shared.scale_per_row;
    if (facts.by_tma) {
      if (cudaError_t const error = set_map(args, parameters); error != cudaSuccess) {
        return error;
      }
    }
    void* list[Parameters::kCount];
    parameters.addresses(list);
    return tilewright::enqueue(*loaded, list, shape, stream);
  }

 private:
  // A stride of 0 is one matrix for all groups. A stride that no coordinate uses still has to be a multiple of 16
  // bytes.
  cudaError_t set_map(Args const& args, Parameters& parameters) const {
    bool const one = args.groups == 1 || args.batch_stride_x == 0;
    int const groups = one ? 1 : args.groups;
    auto const row = static_cast<cuuint64_t>(parameters.shared.row_x);
    parameters.extents[0] = args.m, parameters.extents[1] = args.k, parameters.extents[2] = groups;
    auto const type = facts.x_bits == 8 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_UINT16;
    return sm90::encode_boxes<3>(
        parameters.map, type, args.x, {cuuint64_t(args.k), cuuint64_t(args.m), cuuint64_t(groups)},
        {row, one ? row : cuuint64_t(parameters.shared.group_x)},
        {cuuint32_t(facts.box_columns), cuuint32_t(facts.box_rows), 1}, CU_TENSOR_MAP_SWIZZLE_128B);
  }
};

}  // namespace

int32_t can_implement(Facts const& facts, void const* args) { return Entries<Host>::can_implement({facts}, args); }

int32_t launch(Facts const& facts, void const* args, void* stream) {
  return Entries<Host>::launch({facts}, args, nullptr, stream);
}

}  // namespace tilewright::quantize::cute_dsl
