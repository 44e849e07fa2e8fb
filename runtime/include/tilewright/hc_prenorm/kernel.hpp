// The `hc_prenorm` kernel: D = A B^T in TF32 and the sums of squares of A's rows, in one pass over A.
//
// One warp loads stages by TMA; the others multiply and square. The time is A's way from memory: B is narrow, so that a
// tile has all of n. Thread blocks (CTAs) are persistent, one to an SM, and compute tile after tile. Where whole tiles
// do not divide evenly among CTAs, the blocks of k of all tiles are divided evenly instead. Then a CTA may begin and
// end within a tile. It stores its sums of such a tile apart, and a second kernel adds them up in the order of k, so
// that the bits are the same every time.
#pragma once

#include <cstdint>

#include "tilewright/hc_prenorm/plan.hpp"
#include "tilewright/hc_prenorm/products.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::hc_prenorm {

struct Params {
  CUtensorMap a, b;  // a: of bytes. b: of elements, which TMA rounds to TF32
  Plan plan;
  float* d;        // [splits, m, n]
  float* squares;  // [splits, m]
  float* apart;    // for each CTA, its sums of the tile within which it begins, then of that within which it ends
  int64_t ld_d, split_stride_d;
  int m, n;
  int ways;         // threads of `add_up` that share an element
  bool normalizes;  // D is divided by the root of A's row's mean square; only with one split
  float epsilon, inverse_k;

  __device__ __forceinline__ float factor(float square) const {
    return normalizes ? rsqrtf(fmaf(square, inverse_k, epsilon)) : 1.0f;
  }
};

// Sums of a tile in the workspace: rows of D, then the squares.
template <int TileM, int N>
struct Apart {
  static constexpr int kFloats = TileM * (N + 1);

  // A CTA's sums of the tile within which it begins, or of that within which it ends.
  static __device__ __forceinline__ float* of(Params const& params, int cta, bool begins) {
    return params.apart + (int64_t{cta} * 2 + (begins ? 0 : 1)) * kFloats;
  }
};

// Shared memory, from a multiple of 1024: A's stages, B's stages, barriers.
template <int TileM, int N, int Stages>
struct Layout {
  static constexpr int kStageA = TileM * kBlockK * 2, kStageB = N * kBlockK * 4;
  static constexpr int kBarriersAt = Stages * (kStageA + kStageB);
  static constexpr int kBytes = kBarriersAt + Stages * 16;

  static __device__ __forceinline__ uint32_t a(uint32_t shared, int stage) { return shared + stage * kStageA; }
  static __device__ __forceinline__ uint32_t b(uint32_t shared, int stage) {
    return shared + Stages * kStageA + stage * kStageB;
  }
  static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) {
    return shared + kBarriersAt + stage * 8;
  }
  static __device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) { return full(shared, Stages + stage); }
};

// The ring of stages, as a warp that multiplies uses it.
template <class Layout, int kStages>
struct Stages {
  uint32_t shared;
  bool tells;  // whether this thread arrives for its warp
  sm90::Position<kStages> at{}, oldest{};

  __device__ __forceinline__ void wait() const { sm90::barrier_wait(Layout::full(shared, at.stage), at.phase); }
  __device__ __forceinline__ uint32_t a() const { return Layout::a(shared, at.stage); }
  __device__ __forceinline__ uint32_t b() const { return Layout::b(shared, at.stage); }
  __device__ __forceinline__ void next() { at.next(); }

  // Releases the oldest stage that this warp has not released, after `loaded`, words of the stage, has arrived in
  // registers
  // (`zero_after`).
  __device__ __forceinline__ void release(uint32_t loaded) {
    __syncwarp();
    if (tells) {
      sm90::barrier_arrive(Layout::empty(shared, oldest.stage) + sm90::zero_after(loaded));
    }
    oldest.next();
  }

  // The same where finished instructions have used all that was loaded.
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (tells) {
      sm90::barrier_arrive(Layout::empty(shared, oldest.stage));
    }
    oldest.next();
  }
};

template <class Products, int TileM_, int N_, int Stages_, bool kPdl_>
struct Kernel {
  using Params = hc_prenorm::Params;
  static constexpr int TileM = TileM_, N = N_, kStages = Stages_;
  static constexpr bool kPdl = kPdl_;
  using Layout = hc_prenorm::Layout<TileM, N, kStages>;
  using Apart = hc_prenorm::Apart<TileM, N>;
  static constexpr int kGroups = Products::kGroups;
  static constexpr int kWarps = TileM / (16 * kGroups);
  static constexpr int kThreads = kWarps * 32 + 32;
  static constexpr int kSharedBytes = Layout::kBytes;
  static_assert(TileM % (16 * kGroups) == 0 && TileM <= 256 && N % 8 == 0 && kThreads <= 1024);
  static_assert(kStages >= 2 && kStages <= 32 && kSharedBytes <= 227 * 1024, "the stages exceed the shared memory");

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    uint32_t const shared = sm90::shared_address(memory);
    int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    if (shared % 1024 != 0) {
      __trap();  // the swizzles need this alignment; no static shared memory precedes the stages
    }
    if (threadIdx.x == 0) {  // prologue
      sm90::prefetch_map(&params.a);
      sm90::prefetch_map(&params.b);
      for (int stage = 0; stage < kStages; ++stage) {
        sm90::barrier_init(Layout::full(shared, stage), 1);
        sm90::barrier_init(Layout::empty(shared, stage), kWarps);
      }
      sm90::fence_barrier_init();
    }
    __syncthreads();
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    if (warp < kWarps) {
      multiply(params, shared, warp);
    } else if (sm90::elect_one()) {
      load(params, shared);
    }
  }

 private:
  // Load: one thread.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared) {
    sm90::Position<kStages> at{};
    for_each_segment(params.plan, blockIdx.x, [&](int tile, int first, int last) {
      int const row = tile / params.plan.splits * TileM;
      int k = (params.plan.first_block(tile % params.plan.splits) + first) * kBlockK;
      for (int block = first; block < last; ++block, k += kBlockK) {
        uint32_t const full = Layout::full(shared, at.stage), b = Layout::b(shared, at.stage);
        sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
        sm90::barrier_expect(full, Layout::kStageA + Layout::kStageB);
        sm90::copy_box(Layout::a(shared, at.stage), &params.a, full, k * 2, row, 0, sm90::kEvictFirst);
        sm90::copy_box(b, &params.b, full, k, 0, 0, sm90::kKeepNormal);
        sm90::copy_box(b + N * 128, &params.b, full, k + kBlockK / 2, 0, 0, sm90::kKeepNormal);
        at.next();
      }
    });
  }

  // Multiply: each of the other warps, and the epilogue.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared, int warp) {
    int const lane = threadIdx.x % 32;
    Products const products(warp, lane);
    Stages<Layout, kStages> stages{shared, sm90::elect_one()};
    for_each_segment(params.plan, blockIdx.x, [&](int tile, int first, int last) {
      float sums[kGroups][N / 2];
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (float& sum : sums[group]) {
          sum = 0.0f;
        }
      }
      Squares squares[kGroups];
      products.run(stages, last - first, sums, squares);
      int const row = warp * kGroups * 16 + lane / 4;  // in the tile, this thread's first
      if (last - first == params.plan.blocks_of(tile % params.plan.splits)) {
        store(params, sums, squares, tile % params.plan.splits, tile / params.plan.splits * TileM + row);
      } else {
        store_apart(Apart::of(params, blockIdx.x, first > 0), sums, squares, row);
      }
    });
  }

  // Calls `square(row, sum)`, then `pair(row, column, x, y)` for pairs of neighbours in that row. The pairs of four
  // threads fill a sector of 32 bytes.
  template <class Square, class Pair>
  static __device__ __forceinline__ void for_each_sum(float const (&sums)[kGroups][N / 2],
                                                      Squares const (&squares)[kGroups], int row, Square const& square,
                                                      Pair const& pair) {
    int const column = Products::column(threadIdx.x % 32);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int const own = row + group * 16 + half * 8;
        float const factor = square(own, squares[group].total(half));
#pragma unroll
        for (int j = 0; j < N / 8; ++j) {
          float const* const two = sums[group] + j * 4 + half * 2;
          pair(own, j * 8 + column, two[0] * factor, two[1] * factor);
        }
      }
    }
  }

  static __device__ __forceinline__ void store(Params const& params, float const (&sums)[kGroups][N / 2],
                                               Squares const (&squares)[kGroups], int split, int row) {
    for_each_sum(
        sums, squares, row,
        [&](int own, float sum) {
          if (threadIdx.x % 4 == 0 && own < params.m) {
            params.squares[int64_t{split} * params.m + own] = sum;
          }
          return params.factor(sum);
        },
        [&](int own, int column, float x, float y) {
          if (own < params.m && column < params.n) {
            float* const d = params.d + split * params.split_stride_d + own * params.ld_d + column;
            *reinterpret_cast<float2*>(d) = make_float2(x, y);
          }
        });
  }

  static __device__ __forceinline__ void store_apart(float* apart, float const (&sums)[kGroups][N / 2],
                                                     Squares const (&squares)[kGroups], int row) {
    for_each_sum(
        sums, squares, row,
        [&](int own, float sum) {
          if (threadIdx.x % 4 == 0) {
            apart[TileM * N + own] = sum;
          }
          return 1.0f;
        },
        [&](int own, int column, float x, float y) {
          *reinterpret_cast<float2*>(apart + own * N + column) = make_float2(x, y);
        });
  }
};

// The second kernel. A thread has two neighbours of D, and adds up the sums of some of the CTAs that share their tile.
// `ways` threads have the same two, so that many CTAs take little longer than few.
struct AddUp {
  static constexpr int kThreads = 256;

  static int ways(Plan const& plan) {
    int const share = plan.tiles / plan.splits * plan.blocks / plan.ctas;
    int const most = plan.blocks_of(0) / share + 2;  // CTAs of a tile
    return most <= 4 ? 1 : most <= 16 ? 4 : 16;
  }
};

// Adds up the sums of tile blockIdx.x, if several CTAs share it.
template <class Kernel>
__global__ void __launch_bounds__(AddUp::kThreads) add_up(__grid_constant__ Params const params) {
  constexpr int N = Kernel::N, kSquaresAt = Kernel::TileM * N;
  using Apart = typename Kernel::Apart;
  __shared__ float3 sums[AddUp::kThreads];
  Plan const& plan = params.plan;
  int const tile = blockIdx.x, split = tile % plan.splits, first_row = tile / plan.splits * Kernel::TileM;
  int const pairs = AddUp::kThreads / params.ways, way = threadIdx.x / pairs;
  int const pair = blockIdx.y * pairs + threadIdx.x % pairs, row = pair / (N / 2), column = pair % (N / 2) * 2;
  bool const exists = row < Kernel::TileM && first_row + row < params.m;
  Sharers const sharers(plan, tile);
  int const ctas_per_way = (sharers.last - sharers.first + params.ways) / params.ways;
  int const begin = sharers.first + way * ctas_per_way;
  int const end = exists ? min(begin + ctas_per_way, sharers.last + 1) : begin;
  if constexpr (Kernel::kPdl) {
    sm90::wait_for_previous_kernel();
    sm90::allow_next_kernel();
  }
  if (sharers.first == sharers.last) {
    return;
  }
  float3 sum = {0.0f, 0.0f, 0.0f};
#pragma unroll 4
  for (int cta = begin; cta < end; ++cta) {
    float const* const part = Apart::of(params, cta, cta != sharers.first);
    float2 const two = *reinterpret_cast<float2 const*>(part + row * N + column);
    sum.x += two.x, sum.y += two.y, sum.z += part[kSquaresAt + row];
  }
  if (params.ways > 1) {
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int source = 1; source < params.ways && way == 0; ++source) {
      float3 const addend = sums[threadIdx.x + source * pairs];
      sum.x += addend.x, sum.y += addend.y, sum.z += addend.z;
    }
  }
  if (way != 0 || !exists) {
    return;
  }
  if (column == 0) {
    params.squares[int64_t{split} * params.m + first_row + row] = sum.z;
  }
  if (column < params.n) {
    float const factor = params.factor(sum.z);
    float* const d = params.d + split * params.split_stride_d + (first_row + row) * params.ld_d + column;
    *reinterpret_cast<float2*>(d) = make_float2(sum.x * factor, sum.y * factor);
  }
}

}  // namespace tilewright::hc_prenorm
