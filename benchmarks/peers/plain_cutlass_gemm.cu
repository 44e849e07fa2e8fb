// A GEMM as one writes it with CUTLASS 3.x and its whole headers, in the manner of CUTLASS's examples 48
// and 49: what a unit that tilewright generates is compared with by compile_unit.py, which says with
// -DPEER_... which configuration. Default: BF16, cooperative, 128x256x64 in clusters of 2x1.
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

#ifndef PEER_OPERAND
#define PEER_OPERAND cutlass::bfloat16_t
#endif
#ifndef PEER_OUTPUT
#define PEER_OUTPUT cutlass::bfloat16_t
#endif
#ifndef PEER_TILE_N
#define PEER_TILE_N 256
#endif
#ifndef PEER_TILE_K
#define PEER_TILE_K 64
#endif
#ifndef PEER_CLUSTER_M
#define PEER_CLUSTER_M 2
#endif
#ifndef PEER_MAINLOOP
#define PEER_MAINLOOP KernelTmaWarpSpecializedCooperative
#endif
#ifndef PEER_EPILOGUE
#define PEER_EPILOGUE TmaWarpSpecializedCooperative
#endif
#ifndef PEER_SCHEDULER
#define PEER_SCHEDULER PersistentScheduler
#endif

using Operand = PEER_OPERAND;
using Output = PEER_OUTPUT;

using TileShape = cute::Shape<cute::_128, cute::Int<PEER_TILE_N>, cute::Int<PEER_TILE_K>>;
using ClusterShape = cute::Shape<cute::Int<PEER_CLUSTER_M>, cute::_1, cute::_1>;

constexpr int kAlignOperand = 128 / cutlass::sizeof_bits<Operand>::value;
constexpr int kAlignOutput = 128 / cutlass::sizeof_bits<Output>::value;
using RowMajor = cutlass::layout::RowMajor;

using CollectiveEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, Output, RowMajor, kAlignOutput, Output, RowMajor,
    kAlignOutput, cutlass::epilogue::PEER_EPILOGUE>::CollectiveOp;

using CollectiveMainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Operand, RowMajor, kAlignOperand, Operand,
    cutlass::layout::ColumnMajor, kAlignOperand, float, TileShape, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
        sizeof(typename CollectiveEpilogue::SharedStorage))>,
    cutlass::gemm::PEER_MAINLOOP>::CollectiveOp;

using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, CollectiveMainloop,
                                                    CollectiveEpilogue, cutlass::gemm::PEER_SCHEDULER>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

cutlass::Status run(int m, int n, int k, Operand const* a, Operand const* b, Output const* c, Output* d, float alpha,
                    float beta, void* workspace, cudaStream_t stream) {
  typename Gemm::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                                     {m, n, k, 1},
                                     {a, cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1}), b,
                                      cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1})},
                                     {{alpha, beta},
                                      c,
                                      cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, {m, n, 1}),
                                      d,
                                      cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1})}};
  Gemm gemm;
  if (auto const status = gemm.can_implement(arguments); status != cutlass::Status::kSuccess) {
    return status;
  }
  if (auto const status = gemm.initialize(arguments, workspace, stream); status != cutlass::Status::kSuccess) {
    return status;
  }
  return gemm.run(stream);
}
