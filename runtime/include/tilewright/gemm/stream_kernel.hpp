// The `gemm` kernel for up to 8 rows on sm_90a. It loads the caller's B once, straight into the registers of mma.sync,
// without shared memory, TMA or barriers in between. With so few rows, the time is how soon B's first bytes are
// requested, and how long all of B takes from HBM.
//
// A thread block, or a cluster whose thread blocks divide k, computes 16 columns of D. Its warps take the k of B's 16
// rows round robin, some hundred bytes at a time. Their sums are added up in the order of the warps, so that the bits
// are the same every time.
//
// A lane loads 16 contiguous bytes of a row, where mma.sync's own order of k would need four loads. The order of k is
// free as long as it is the same in A and B.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/element_epilogue.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::gemm::stream {

using sm90::Activation;

struct Params {
  void const* a;                                                     // [m, k], k contiguous
  void const* b;                                                     // [n, k], k contiguous
  int64_t row_bytes_a, row_bytes_b, matrix_bytes_a, matrix_bytes_b;  // strides
  int units;                                                         // of 16 bytes, in a row
  int splits;                                                        // thread blocks of a cluster, which divide k
  sm90::EpilogueParams epilogue;
};

namespace detail {

// D[16, 8] += A[16, k] B[8, k]^T with 32 bytes of k. Lane l holds rows l/4 and l/4 + 8 of A and D, row l/4 of B, and
// columns 2(l%4), 2(l%4) + 1 of D. sm_90 has no mma.sync instruction for FP8: it converts FP8 to FP16, so that the sums
// are as exact as those of the other types.
template <class A, class B>
__device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8%10.row.col.f32%11%12.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
        "C"(sm90::detail::Shape<A::kBytes, false, false>::kDepth), "C"(A::kName), "C"(B::kName));
}

// Loads 16 bytes that no thread block reads again (load_once), or that every thread block reads (load_again).
__device__ __forceinline__ uint4 load_once(char const* from) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
__device__ __forceinline__ uint4 load_again(char const* from) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
  return v;
}

}  // namespace detail

// `ElementA_` and `ElementB_` are the types of the caller's operands. For mma.sync they are swapped: the caller's B has
// its 16 rows, the caller's A its 8.
template <class ElementA_, class ElementB_, class ElementD_, int Steps, Activation kActivation_, bool kPdl>
struct Kernel {
  using ElementA = ElementA_;
  using ElementB = ElementB_;
  using ElementD = ElementD_;
  using Params = stream::Params;
  static constexpr Activation kActivation = kActivation_;
  static constexpr int kRows = 8, kColumns = 16;  // of D
  static constexpr int kWarps = 8, kThreads = kWarps * 32;
  static constexpr int kUnits = Steps * 4;  // of a row that a warp takes at a time
  static constexpr int kSharedBytes = (kWarps + 1) * kColumns * kRows * 4;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::EpilogueParams const& epilogue = params.epilogue;
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int const split = blockIdx.x % params.splits, matrix = blockIdx.y;
    int const group = lane / 4, first = static_cast<int>(blockIdx.x / params.splits) * kColumns;
    // In place of rows outside of a matrix, its last row is loaded. Those sums are not stored.
    int const high = min(first + group, epilogue.n - 1), low = min(first + group + 8, epilogue.n - 1);
    char const* const b = static_cast<char const*>(params.b) + matrix * params.matrix_bytes_b;
    char const* const b_high = b + high * params.row_bytes_b;
    char const* const b_low = b + low * params.row_bytes_b;
    char const* const a = static_cast<char const*>(params.a) + matrix * params.matrix_bytes_a +
                          min(group, epilogue.m - 1) * params.row_bytes_a;
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    float sum[4] = {};
    int const stride = kUnits * kWarps * params.splits;
    int start = (split * kWarps + warp) * kUnits;
    // Double buffering: the loads of the next round run while this round is multiplied.
    Loads current, next;
    current.load(params, start, b_high, b_low, a);
    for (; start < params.units; start += 2 * stride) {
      next.load(params, start + stride, b_high, b_low, a);
      current.multiply(sum);
      current.load(params, start + 2 * stride, b_high, b_low, a);
      next.multiply(sum);
    }
    float* const sums = reinterpret_cast<float*>(memory);  // [warp][row][column] of D
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int const row = lane % 4 * 2 + i % 2, column = group + i / 2 * 8;
      sums[(warp * kRows + row) * kColumns + column] = sum[i];
    }
    __syncthreads();
    int const row = threadIdx.x / kColumns, column = threadIdx.x % kColumns;
    float total = 0.0f;
    if (row < kRows) {
#pragma unroll
      for (int part = 0; part < kWarps; ++part) {
        total += sums[(part * kRows + row) * kColumns + column];
      }
    }
    if (params.splits > 1) {
      float* const totals = sums + kWarps * kRows * kColumns;  // [row][column] of D, of this thread block's k
      if (row < kRows) {
        totals[threadIdx.x] = total;
      }
      sm90::cluster_barrier();
      if (split == 0 && row < kRows) {
        uint32_t const address = sm90::shared_address(totals + threadIdx.x);
        for (int rank = 1; rank < params.splits; ++rank) {
          total += sm90::load_float_cluster(sm90::cluster_address(address, rank));
        }
      }
      sm90::cluster_barrier();  // no CTA ends before its shared memory is read
    }
    if (split == 0 && row < kRows) {
      sm90::store_element<ElementD, kActivation>(epilogue, total, row, first + column, matrix);
    }
  }

 private:
  // What a warp loads in a round: kUnits units of 16 bytes along k of each row, zeros beyond k.
  struct Loads {
    uint4 x[Steps], y[Steps], z[Steps];

    __device__ __forceinline__ void load(Params const& params, int start, char const* b_high, char const* b_low,
                                         char const* a) {
#pragma unroll
      for (int step = 0; step < Steps; ++step) {
        int const unit = start + step * 4 + static_cast<int>(threadIdx.x) % 4;
        bool const exists = unit < params.units;
        int64_t const at = int64_t(unit) * 16;
        x[step] = exists ? detail::load_once(b_high + at) : uint4{};
        y[step] = exists ? detail::load_once(b_low + at) : uint4{};
        z[step] = exists ? detail::load_again(a + at) : uint4{};
      }
    }

    __device__ __forceinline__ void multiply(float (&sum)[4]) const {
#pragma unroll
      for (int step = 0; step < Steps; ++step) {
        uint4 const &u = x[step], &v = y[step], &w = z[step];
        detail::mma<ElementB, ElementA>(sum, {u.x, v.x, u.y, v.y}, {w.x, w.y});
        detail::mma<ElementB, ElementA>(sum, {u.z, v.z, u.w, v.w}, {w.z, w.w});
      }
    }
  };
};

}  // namespace tilewright::gemm::stream
