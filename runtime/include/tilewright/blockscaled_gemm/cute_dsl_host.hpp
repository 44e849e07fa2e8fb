// The host code of `blockscaled_gemm` kernels that are written in CuTe-DSL (cute_dsl.hpp), compiled once, in a module's
// table.
#pragma once

#include <climits>
#include <cstdint>

#include "tilewright/adapter.hpp"
#include "tilewright/alignment.hpp"
#include "tilewright/blockscaled_gemm/cute_dsl.hpp"
#include "tilewright/gemm/args.h"
#include "tilewright/program_host.hpp"
#include "tilewright/sm90/matrices.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::blockscaled_gemm::cute_dsl {

namespace {  // so that g++ inlines functions that are called once

constexpr int kScaleRows = 128, kScaleColumns = 4, kAtomBytes = kScaleRows * kScaleColumns;  // of an atom
constexpr int kLeastOfMany = 64;  // columns of a tile that may begin within an atom

// A tensor has a tensor map, and the extents of its three modes.
struct Tensor {
  CUtensorMap map;
  int32_t extents[3];
};

// The parameters of a kernel's function, in the order of blockscaled_gemm/tcgen05_program.py.
struct Params {
  Tensor a, b, scales_a, scales_b, d;
  void const* c;
  int64_t ld_c, batch_stride_c;  // elements
  float beta;
  float const* alpha;
  int32_t k_tiles;
  int32_t blocks_m, blocks_n;  // of a matrix; a block is the tiles of a cluster
  int32_t blocks;              // of all matrices
  int32_t swizzle, down;       // see sm90::Raster
  void* d_elements;
  int64_t ld_d, batch_stride_d;
  int32_t m, n;
  void const* bias;  // of D's type, or null
  int32_t activation;

  static constexpr int kCount = 28;

  void addresses(void* (&list)[kCount]) {
    void* const all[] = {&a.map,
                         a.extents,
                         &b.map,
                         b.extents,
                         &scales_a.map,
                         scales_a.extents,
                         &scales_b.map,
                         scales_b.extents,
                         &d.map,
                         d.extents,
                         &c,
                         &ld_c,
                         &batch_stride_c,
                         &beta,
                         &alpha,
                         &k_tiles,
                         &blocks_m,
                         &blocks_n,
                         &blocks,
                         &swizzle,
                         &down,
                         &d_elements,
                         &ld_d,
                         &batch_stride_d,
                         &m,
                         &n,
                         &bias,
                         &activation};
    static_assert(sizeof all == sizeof list, "a kernel of CuTe-DSL has another number of parameters");
    std::copy(std::begin(all), std::end(all), list);
  }
};

struct Host {
  using Args = tilewright_blockscaled_gemm_appended_args;
  using Base = tilewright_blockscaled_gemm_args;

  Facts const& facts;

  // TMA loads A and B, so their rows begin at multiples of 16 bytes. Rows of D are multiples of what a store writes,
  // unless operands are swapped. A narrow tile has all columns.
  bool can_implement(Args const& given) const {
    Base const& args = given.base;
    bool const sizes = args.m > 0 && args.n > 0 && args.k > 0 && args.batch > 0;
    auto const aligned = [&](void const* address, int64_t leading, int64_t batch_stride, int bits, int bytes = 16) {
      return is_aligned(address, bytes) && leading * bits % (8 * bytes) == 0 &&
             (args.batch == 1 || batch_stride * bits % (8 * bytes) == 0);
    };
    int const bits_d = 8 * facts.bytes_d, stored_bytes = facts.by_tma ? 16 : facts.store_bytes;
    bool const stored = facts.swapped || (int64_t(args.n) * facts.bytes_d % stored_bytes == 0 &&
                                          aligned(args.d, args.ld_d, args.batch_stride_d, bits_d, stored_bytes));
    bool const whole = args.k % (8 / facts.bits) == 0 && columns(args) <= most_columns();
    int const bytes_of_bias = facts.bytes_d == 1 ? 2 : facts.bytes_d;  // BF16 beside a D of FP8
    bool const finished =
        is_aligned(given.bias, bytes_of_bias) && (facts.activates || given.activation == TILEWRIGHT_ACTIVATION_NONE);
    return sizes && stored && whole && finished && blocks(args) < INT32_MAX && args.scale_d == nullptr &&
           aligned(args.a, args.ld_a, args.batch_stride_a, facts.bits) &&
           aligned(args.b, args.ld_b, args.batch_stride_b, facts.bits) && is_aligned(args.scale_a, 16) &&
           is_aligned(args.scale_b, 16) && splits(args) && args.tactic.swizzle > 0 && args.tactic.sm_count > 0;
  }

  int64_t workspace_bytes(Args const&) const { return 0; }

  cudaError_t enqueue(Context const& context, Args const& args, void*, cudaStream_t stream) const {
    return enqueue_tiles<Params>(facts, context, args.base, stream,
                                 [&](int at_once, Params& params) { return make_params(args, at_once, params); });
  }

 private:
  static int ceil_div(int x, int y) { return x / y + (x % y != 0); }

  // Whether the kernel divides k as the tactic says: each range has tiles of k.
  bool splits(Base const& args) const {
    int const tiles = ceil_div(args.k, facts.tile_k * facts.k_stages);
    return args.tactic.splits == 1 || (facts.splits && splits_clusters(args.tactic.splits, tiles));
  }

  int rows(Base const& args) const { return facts.swapped ? args.n : args.m; }
  int columns(Base const& args) const { return facts.swapped ? args.m : args.n; }
  int most_columns() const { return facts.tile_n < kLeastOfMany ? facts.tile_n : INT32_MAX; }
  int blocks_m(Base const& args) const { return ceil_div(rows(args), facts.tile_m * facts.cluster_m); }
  int blocks_n(Base const& args) const { return ceil_div(columns(args), facts.tile_n * facts.cluster_n); }
  int64_t blocks(Base const& args) const { return int64_t(blocks_m(args)) * blocks_n(args) * args.batch; }

  cudaError_t make_params(Args const& given, int at_once, Params& params) const {
    Base const& args = given.base;
    int const rows_a = facts.tile_m / facts.cluster_n, rows_b = facts.tile_n / facts.cluster_m;  // that a block loads
    bool const swapped = facts.swapped;
    Tensor &of_a = swapped ? params.b : params.a, &of_b = swapped ? params.a : params.b;
    Tensor& scales_of_a = swapped ? params.scales_b : params.scales_a;
    Tensor& scales_of_b = swapped ? params.scales_a : params.scales_b;
    cudaError_t const errors[] = {
        encode(of_a, args, args.a, args.m, args.ld_a, args.batch_stride_a, swapped ? rows_b : rows_a),
        encode(of_b, args, args.b, args.n, args.ld_b, args.batch_stride_b, swapped ? rows_a : rows_b),
        encode_scales(scales_of_a, args, args.scale_a, args.m, args.batch_stride_a,
                      swapped ? facts.tile_n : facts.tile_m),
        encode_scales(scales_of_b, args, args.scale_b, args.n, args.batch_stride_b,
                      swapped ? facts.tile_m : facts.tile_n),
        facts.by_tma ? encode_d(params.d, args) : cudaSuccess};
    params.c = args.c, params.ld_c = args.ld_c, params.batch_stride_c = args.batch_stride_c;
    params.beta = args.beta, params.alpha = args.alpha;
    params.d_elements = args.d, params.ld_d = args.ld_d, params.batch_stride_d = args.batch_stride_d;
    params.m = args.m, params.n = args.n;
    params.bias = given.bias, params.activation = given.activation;
    params.k_tiles = ceil_div(args.k, facts.tile_k * facts.k_stages) * facts.k_stages;
    params.blocks_m = blocks_m(args), params.blocks_n = blocks_n(args);
    params.blocks = static_cast<int32_t>(blocks(args));
    int const high = facts.tile_m * facts.cluster_m, wide = facts.tile_n * facts.cluster_n;
    bool const heuristic = args.tactic.raster == TILEWRIGHT_RASTER_HEURISTIC;
    params.down = heuristic || args.tactic.raster == TILEWRIGHT_RASTER_ALONG_M;
    params.swizzle = heuristic ? sm90::Raster::best_swizzle(params.blocks_m, at_once, high, wide) : args.tactic.swizzle;
    auto const* const failed =
        std::find_if(std::begin(errors), std::end(errors), [](cudaError_t e) { return e != cudaSuccess; });
    return failed == std::end(errors) ? cudaSuccess : *failed;
  }

  // Whether one matrix serves the whole batch.
  static bool is_one(Base const& args, int64_t batch_stride) { return args.batch == 1 || batch_stride == 0; }

  // The matrices of an operand. A stride that no coordinate uses still has to be a multiple of 16 bytes.
  cudaError_t encode(Tensor& tensor, Base const& args, void const* address, int rows, int64_t leading,
                     int64_t batch_stride, int box_rows) const {
    bool const one = is_one(args, batch_stride);
    int const matrices = one ? 1 : args.batch;
    tensor.extents[0] = rows, tensor.extents[1] = args.k, tensor.extents[2] = matrices;
    cuuint64_t const row_bytes = leading * facts.bits / 8;
    auto const type = facts.bits == 4 ? CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B : CU_TENSOR_MAP_DATA_TYPE_UINT8;
    return sm90::encode_boxes<3>(tensor.map, type, address,
                                 {cuuint64_t(args.k), cuuint64_t(rows), cuuint64_t(matrices)},
                                 {row_bytes, one ? row_bytes * rows : cuuint64_t(batch_stride * facts.bits / 8)},
                                 {cuuint32_t(facts.tile_k), cuuint32_t(box_rows), 1}, CU_TENSOR_MAP_SWIZZLE_128B);
  }

  // Words of 8 bytes of the atoms along k, blocks of 128 rows, matrices. Outside of these, TMA writes zeros, so that
  // what lies beyond k is 0 times 0.
  cudaError_t encode_scales(Tensor& tensor, Base const& args, void const* address, int rows, int64_t batch_stride,
                            int tile_rows) const {
    constexpr int kWords = kAtomBytes / 8;
    int const atoms = ceil_div(ceil_div(args.k, facts.block), kScaleColumns), down = ceil_div(rows, kScaleRows);
    int const matrices = is_one(args, batch_stride) ? 1 : args.batch;
    tensor.extents[0] = down, tensor.extents[1] = atoms * kWords, tensor.extents[2] = matrices;
    cuuint64_t const row_bytes = cuuint64_t(atoms) * kAtomBytes;
    int const box_atoms = facts.tile_k / facts.block / kScaleColumns;
    return sm90::encode_boxes<3>(
        tensor.map, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, address,
        {cuuint64_t(atoms) * kWords, cuuint64_t(down), cuuint64_t(matrices)}, {row_bytes, row_bytes * down},
        {cuuint32_t(box_atoms * kWords), cuuint32_t(ceil_div(tile_rows, kScaleRows)), 1}, CU_TENSOR_MAP_SWIZZLE_NONE);
  }

  cudaError_t encode_d(Tensor& tensor, Base const& args) const {
    bool const one = is_one(args, args.batch_stride_d);
    int const matrices = one ? 1 : args.batch;
    tensor.extents[0] = args.m, tensor.extents[1] = args.n, tensor.extents[2] = matrices;
    cuuint64_t const row_bytes = args.ld_d * facts.bytes_d;
    return sm90::encode_boxes<3>(
        tensor.map, facts.type_d, args.d, {cuuint64_t(args.n), cuuint64_t(args.m), cuuint64_t(matrices)},
        {row_bytes, one ? row_bytes * args.m : cuuint64_t(args.batch_stride_d * facts.bytes_d)},
        {cuuint32_t(facts.subtile), cuuint32_t(facts.tile_m), 1},
        facts.subtile * facts.bytes_d == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
  }
};

}  // namespace

int32_t can_implement(Facts const& facts, void const* args) { return Entries<Host>::can_implement({facts}, args); }

int32_t launch(Facts const& facts, void const* args, void* stream) {
  return Entries<Host>::launch({facts}, args, nullptr, stream);
}

}  // namespace tilewright::blockscaled_gemm::cute_dsl
