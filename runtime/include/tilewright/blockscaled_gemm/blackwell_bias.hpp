// The header of generated `blockscaled_gemm` kernels by CUTLASS that add a bias and apply the activation that a call
// names.
#pragma once

#include "cutlass/arch/grid_dependency_control.h"
#include "tilewright/blockscaled_gemm/appended_args.h"
#include "tilewright/blockscaled_gemm/blackwell.hpp"
#include "tilewright/gemm/args.h"

namespace tilewright::blockscaled_gemm {

// Waits for the previous kernel, which may have written the bias, before the bias is read. The epilogue's warps read it
// before they wait for sums, and of CUTLASS's other warps only those that load operands wait for the previous kernel.
template <class Callbacks>
struct WaitsFirst : Callbacks {
  CUTLASS_DEVICE explicit WaitsFirst(Callbacks const& callbacks) : Callbacks(callbacks) {}

  CUTLASS_DEVICE void begin() {
    cutlass::arch::wait_on_dependent_grids();
    Callbacks::begin();
  }
};

template <class Node>
struct ReadAfterPreviousKernel : Node {
  using Node::Node;

  template <bool ReferenceSrc, class... Args>
  CUTLASS_DEVICE auto get_consumer_store_callbacks(cutlass::epilogue::fusion::ConsumerStoreArgs<Args...> const& args) {
    auto const callbacks = Node::template get_consumer_store_callbacks<ReferenceSrc>(args);
    return WaitsFirst<cute::remove_cvref_t<decltype(callbacks)>>(callbacks);
  }
};

// The activation that a launch names.
struct ActivationArguments {
  int32_t activation = TILEWRIGHT_ACTIVATION_NONE;
};

template <class T>
struct GivenActivation {
  using Arguments = ActivationArguments;

  CUTLASS_DEVICE T operator()(T const& value, Arguments const& given) const {
    switch (given.activation) {
      case TILEWRIGHT_ACTIVATION_RELU:
        return cutlass::epilogue::thread::ReLU<T>{}(value);
      case TILEWRIGHT_ACTIVATION_GELU:
        return cutlass::epilogue::thread::GELU<T>{}(value);
      case TILEWRIGHT_ACTIVATION_SILU:
        return cutlass::epilogue::thread::SiLu<T>{}(value);
      default:
        return value;
    }
  }
};

// D = activation(beta * C + (alpha * accumulator + bias))
template <class TileShape, class ElementC, class ElementD, Bias Where>
struct BiasedEpilogue {
  using Plain = Epilogue<TileShape, ElementC, ElementD, float, Where>;
  static constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;

  template <template <class> class Op, class Out>
  using Compute = fusion::Sm90Compute<Op, Out, float, kRound>;

  using Scaled = fusion::Sm90EVT<Compute<cutlass::homogeneous_multiply_add, float>, typename Plain::Alpha,
                                 fusion::Sm90AccFetch, ReadAfterPreviousKernel<typename Plain::BiasVector>>;
  using Linear = fusion::Sm90EVT<Compute<cutlass::homogeneous_multiply_add, float>, typename Plain::Beta,
                                 fusion::Sm90SrcFetch<ElementC>, Scaled>;
  using Callbacks = fusion::Sm90EVT<Compute<GivenActivation, ElementD>, Linear>;

  static typename Callbacks::Arguments arguments(typename Plain::Inputs const& inputs, int32_t activation) {
    typename Callbacks::Arguments out{};
    auto const plain = Plain::arguments(inputs);
    out.op_0.op_0 = plain.op_0;
    out.op_0.op_2.op_0 = plain.op_2.op_0;
    out.op_0.op_2.op_2 = plain.op_2.op_2;
    out.op_1.activation = activation;
    return out;
  }
};

// tilewright_blockscaled_gemm_appended_args, with the members of the base as its own, as `CutlassAdapter` names them.
struct BiasedArgs : tilewright_blockscaled_gemm_args {
  void const* bias;
  int32_t activation;
};
static_assert(sizeof(BiasedArgs) == sizeof(tilewright_blockscaled_gemm_appended_args));

template <class Traits>
struct BiasedProblem {
  using Args = BiasedArgs;
  using Kernel = typename Traits::Kernel;

  static bool possible(Args const&) { return true; }

  static typename Kernel::Arguments arguments(Args const& args) {
    typename Kernel::Arguments out = Problem<Plain>::arguments(args);
    typename Traits::Fusion::Plain::Inputs inputs{};
    inputs.factors[0] = args.alpha;
    inputs.beta = args.beta;
    inputs.bias = args.bias;
    out.epilogue.thread = Traits::Fusion::arguments(inputs, args.activation);
    return out;
  }

 private:
  // The same kernel, for what has nothing to do with the bias.
  struct Plain : Traits {
    struct Fusion {
      struct Inputs {
        float const* factors[2];
        float beta;
      };
      static auto arguments(Inputs const&) { return typename Traits::Fusion::Callbacks::Arguments{}; }
    };
  };
};

}  // namespace tilewright::blockscaled_gemm

#define TILEWRIGHT_BLOCKSCALED_GEMM_BIAS_KERNEL(NAME) \
  TILEWRIGHT_CUTLASS_KERNEL(NAME, tilewright::blockscaled_gemm::BiasedProblem)
