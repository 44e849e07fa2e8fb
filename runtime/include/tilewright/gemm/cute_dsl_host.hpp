// The host code of `gemm` kernels that are written in CuTe-DSL (cute_dsl.hpp), compiled once, in a module's table.
#pragma once

#include <climits>
#include <cstdint>

#include "tilewright/adapter.hpp"
#include "tilewright/alignment.hpp"
#include "tilewright/gemm/cute_dsl.hpp"
#include "tilewright/program_host.hpp"
#include "tilewright/sm90/matrices.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::gemm::cute_dsl {

namespace {  // so that g++ inlines functions that are called once

// The parameters of a kernel's function, in the order of templates/gemm/cute_dsl.py.j2, then those that
// gemm/tcgen05_program.py has besides. A tensor has a tensor map, and the extents of its three modes.
struct Tensor {
  CUtensorMap map;
  int32_t extents[3];
};

struct Params {
  Tensor a, b, d;
  void const* c;
  int64_t ld_c, batch_stride_c;  // elements
  float alpha, beta;
  float const *scale_a, *scale_b;
  int32_t k_tiles;
  int32_t blocks_m, blocks_n;  // of a matrix; a block is the tiles of a cluster
  int32_t blocks;              // of all matrices
  int32_t swizzle, down;       // see sm90::Raster

  void* d_elements;
  int64_t ld_d, batch_stride_d;
  void const* bias;
  int32_t type_c, type_bias, activation;
  int32_t m, n;
  float const* scale_result;
  float* amax;

  static constexpr int kCount = 30;

  // The driver reads as many as the kernel has.
  void addresses(void* (&list)[kCount]) {
    void* const all[] = {
        &a.map, a.extents,     &b.map,   b.extents,       &d.map,   d.extents, &c,         &ld_c,       &batch_stride_c,
        &alpha, &beta,         &scale_a, &scale_b,        &k_tiles, &blocks_m, &blocks_n,  &blocks,     &swizzle,
        &down,  &d_elements,   &ld_d,    &batch_stride_d, &bias,    &type_c,   &type_bias, &activation, &m,
        &n,     &scale_result, &amax};
    static_assert(sizeof all == sizeof list, "a kernel of CuTe-DSL has another number of parameters");
    std::copy(std::begin(all), std::end(all), list);
  }
};

struct Host {
  using Args = tilewright_gemm_args;

  Facts const& facts;

  // TMA loads A and B, so their rows begin at multiples of 16 bytes. If it stores D, rows of D are such multiples, too.
  bool can_implement(Args const& args) const {
    auto const aligned = [&](void const* address, int64_t leading, int64_t batch_stride, Element element) {
      return is_aligned(address, 16) && leading * element.bytes % 16 == 0 &&
             (args.batch == 1 || batch_stride * element.bytes % 16 == 0);
    };
    bool const sizes = args.m > 0 && args.n > 0 && args.k > 0 && args.batch > 0;
    bool const stored = facts.swapped || (int64_t(args.n) * facts.result.bytes % 16 == 0 &&
                                          aligned(args.d, args.ld_d, args.batch_stride_d, facts.result));
    return sizes && stored && blocks(args) < INT32_MAX &&
           aligned(args.a, args.ld_a, args.batch_stride_a, facts.operand) &&
           aligned(args.b, args.ld_b, args.batch_stride_b, facts.operand) && adds(args) && splits(args) &&
           args.tactic.swizzle > 0 && args.tactic.sm_count > 0;
  }

  int64_t workspace_bytes(Args const&) const { return 0; }

  cudaError_t enqueue(Context const& context, Args const& args, void*, cudaStream_t stream) const {
    return enqueue_tiles<Params>(facts, context, args, stream,
                                 [&](int at_once, Params& params) { return make_params(args, at_once, params); });
  }

 private:
  // Whether the kernel divides k as the tactic says: each range has tiles of k.
  bool splits(Args const& args) const {
    int const tiles = ceil_div(args.k, facts.tile_k);
    return args.tactic.splits == 1 || (facts.splits && splits_clusters(args.tactic.splits, tiles));
  }

  // Whether the kernel adds C and the bias, and applies the activation.
  bool adds(Args const& args) const {
    bool const any = facts.addend == kAnyAddend;
    return any || (args.bias == nullptr && args.activation == TILEWRIGHT_ACTIVATION_NONE &&
                   (args.beta == 0.0f || args.type_c == facts.addend));
  }

  int rows(Args const& args) const { return facts.swapped ? args.n : args.m; }
  int columns(Args const& args) const { return facts.swapped ? args.m : args.n; }
  int blocks_m(Args const& args) const { return ceil_div(rows(args), facts.tile_m * facts.cluster_m); }
  int blocks_n(Args const& args) const { return ceil_div(columns(args), facts.tile_n * facts.cluster_n); }
  int64_t blocks(Args const& args) const { return int64_t(blocks_m(args)) * blocks_n(args) * args.batch; }

  static int ceil_div(int x, int y) { return x / y + (x % y != 0); }

  cudaError_t make_params(Args const& args, int at_once, Params& params) const {
    int const rows_a = facts.tile_m / facts.cluster_n, rows_b = facts.tile_n / facts.cluster_m;  // that a block loads
    auto& of_a = facts.swapped ? params.b : params.a;
    auto& of_b = facts.swapped ? params.a : params.b;
    cudaError_t error = encode(of_a, args, facts.operand, args.a, args.m, args.k, args.ld_a, args.batch_stride_a,
                               facts.swapped ? rows_b : rows_a, facts.tile_k);
    if (error == cudaSuccess) {
      error = encode(of_b, args, facts.operand, args.b, args.n, args.k, args.ld_b, args.batch_stride_b,
                     facts.swapped ? rows_a : rows_b, facts.tile_k);
    }
    if (error == cudaSuccess && !facts.swapped) {
      error = encode(params.d, args, facts.result, args.d, args.m, args.n, args.ld_d, args.batch_stride_d, facts.tile_m,
                     facts.subtile);
    }
    params.d_elements = args.d, params.ld_d = args.ld_d, params.batch_stride_d = args.batch_stride_d;
    params.bias = args.bias, params.type_c = args.type_c, params.type_bias = args.type_bias;
    params.activation = args.activation, params.m = args.m, params.n = args.n;
    params.c = args.c, params.ld_c = args.ld_c, params.batch_stride_c = args.batch_stride_c;
    params.alpha = args.alpha, params.beta = args.beta;
    params.scale_a = args.scale_a, params.scale_b = args.scale_b;
    params.scale_result = args.scale_result, params.amax = args.amax;
    params.k_tiles = ceil_div(args.k, facts.tile_k);
    params.blocks_m = blocks_m(args), params.blocks_n = blocks_n(args);
    params.blocks = static_cast<int32_t>(blocks(args));
    int const high = facts.tile_m * facts.cluster_m, wide = facts.tile_n * facts.cluster_n;
    bool const heuristic = args.tactic.raster == TILEWRIGHT_RASTER_HEURISTIC;
    params.down = heuristic || args.tactic.raster == TILEWRIGHT_RASTER_ALONG_M;
    params.swizzle = heuristic ? sm90::Raster::best_swizzle(params.blocks_m, at_once, high, wide) : args.tactic.swizzle;
    return error;
  }

  // The matrices of an operand. A batch stride of 0 is one matrix for all. A stride that no coordinate uses still has
  // to be a multiple of 16 bytes.
  static cudaError_t encode(Tensor& tensor, Args const& args, Element element, void const* address, int rows,
                            int columns, int64_t leading, int64_t batch_stride, int box_rows, int box_columns) {
    bool const one = args.batch == 1 || batch_stride == 0;
    int const matrices = one ? 1 : args.batch;
    tensor.extents[0] = rows, tensor.extents[1] = columns, tensor.extents[2] = matrices;
    cuuint64_t const row_bytes = leading * element.bytes;
    bool const wide = box_columns * element.bytes == 128;
    return sm90::encode_boxes<3>(tensor.map, element.type, address,
                                 {cuuint64_t(columns), cuuint64_t(rows), cuuint64_t(matrices)},
                                 {row_bytes, one ? row_bytes * rows : cuuint64_t(batch_stride * element.bytes)},
                                 {cuuint32_t(box_columns), cuuint32_t(box_rows), 1},
                                 wide ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
  }
};

}  // namespace

int32_t can_implement(Facts const& facts, void const* args) { return Entries<Host>::can_implement({facts}, args); }

int32_t launch(Facts const& facts, void const* args, void* stream) {
  return Entries<Host>::launch({facts}, args, nullptr, stream);
}

}  // namespace tilewright::gemm::cute_dsl
