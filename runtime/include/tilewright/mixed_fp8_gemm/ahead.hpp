// The kernel with the schedule `ahead`: one warpgroup decodes weights for the two that multiply, and hands them over in
// buffers in shared memory (decoding_warpgroup.hpp).
#pragma once

#include "tilewright/mixed_fp8_gemm/decoding_warpgroup.hpp"
#include "tilewright/mixed_fp8_gemm/mainloop.hpp"
#include "tilewright/mixed_gemm/phases.hpp"
#include "tilewright/sm90/product.hpp"

namespace tilewright::mixed_fp8_gemm {

// Warpgroups: two multiply, one decodes, one loads.
template <class Types>
struct AheadKernel : mixed_gemm::Phases<Types> {
  using Base = mixed_gemm::Phases<Types>;
  using typename Base::Layout;
  using typename Base::Params;
  static constexpr int kThreads = (Types::kConsumers + 2) * 128;
  // Registers of a thread, of the 65536: four warpgroups start with 128 each.
  static constexpr int kProducerRegisters = 24, kDecoderRegisters = 40, kConsumerRegisters = 224;
  static_assert(Types::kConsumers == 2 && 2 * kConsumerRegisters + kDecoderRegisters + kProducerRegisters <= 4 * 128);

  // As sm90::run_product, with one warpgroup more, which decodes.
  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    uint32_t const shared = sm90::shared_address(memory);
    int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    sm90::ClusterPlace const place(params.cluster);
    sm90::prologue<AheadKernel>(params, shared, warp);
    if (warp / 4 == Types::kConsumers + 1) {
      sm90::keep_registers<kProducerRegisters>();
      Base::load(params, shared, place, warp % 4 == 0);
    } else if (warp / 4 == Types::kConsumers) {
      sm90::keep_registers<kDecoderRegisters>();
      decode(params, shared, place);
    } else {
      sm90::take_registers<kConsumerRegisters>();
      Base::multiply(params, shared, place, warp / 4);
    }
    sm90::finish(params.cluster);
  }

  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    Base::init_barriers(params, shared);
    start_buffers<Layout>(shared);
  }

 private:
  static __device__ __forceinline__ void decode(Params const& params, uint32_t shared,
                                                sm90::ClusterPlace const& place) {
    Decoder<typename Types::Format, Layout, Types::Stages> decoder{shared};
    sm90::enter<Types::kPdl>(params.cluster);
    for (int index = sm90::cluster_index(); index < params.raster.blocks; index += sm90::cluster_count()) {
      decoder.run(params.k_tiles(place.split));
      Base::meet_consumers(params, index);
    }
  }
};

template <int Width, int Buffers = 2>
struct Ahead {
  static constexpr int kBuffers = Buffers;
  template <class Types>
  using Kernel = AheadKernel<Types>;
  template <class Format, class Layout, int N, int Stages>
  using Mainloop = mixed_fp8_gemm::Mainloop<Format, Layout, N, Width, Stages, 1>;
};

}  // namespace tilewright::mixed_fp8_gemm
