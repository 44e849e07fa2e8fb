// The epilogue of a CUTLASS kernel, as one epilogue visitor tree:
//
//   D = activation(beta * C + (alpha * factor_0 * factor_1 * accumulator + bias))
//
// The factors are device scalars, read when the kernel runs.
#pragma once

#include "cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp"
#include "cutlass/epilogue/thread/activation.h"

namespace tilewright {

namespace fusion = cutlass::epilogue::fusion;

// How the bias lies in the kernel's own (m, n) plane. Swapping the operands transposes the plane,
// so that a bias along the caller's n runs along the kernel's m.
enum class Bias { None, AlongM, AlongN };

template <Bias Where, class TileShape, class ElementBias, class ElementCompute>
struct BiasNode {  // Bias::None
  using Type = void;
};
template <class TileShape, class ElementBias, class ElementCompute>
struct BiasNode<Bias::AlongM, TileShape, ElementBias, ElementCompute> {
  using Type = fusion::Sm90ColBroadcast<0, TileShape, ElementBias, ElementCompute>;
};
template <class TileShape, class ElementBias, class ElementCompute>
struct BiasNode<Bias::AlongN, TileShape, ElementBias, ElementCompute> {
  using Type = fusion::Sm90RowBroadcast<0, TileShape, ElementBias, ElementCompute>;
};

template <class TileShape, class ElementC, class ElementD, class ElementCompute, Bias Where = Bias::None,
          template <class> class Activation = cutlass::epilogue::thread::Identity>
struct Epilogue {
  static constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;
  static constexpr bool kActivates =
      !cute::is_same_v<Activation<ElementCompute>, cutlass::epilogue::thread::Identity<ElementCompute>>;

  using ScalarStride = cute::Stride<cute::_0, cute::_0, int64_t>;
  using Alpha = fusion::Sm90ScalarBroadcast<ElementCompute, ScalarStride, 3>;
  using Beta = fusion::Sm90ScalarBroadcast<ElementCompute, ScalarStride>;
  using BiasVector = typename BiasNode<Where, TileShape, ElementD, ElementCompute>::Type;

  template <template <class> class Op, class Out>
  using Compute = fusion::Sm90Compute<Op, Out, ElementCompute, kRound>;

  using Scaled =
      cute::conditional_t<Where == Bias::None,
                          fusion::Sm90EVT<Compute<cutlass::multiplies, ElementCompute>, Alpha, fusion::Sm90AccFetch>,
                          fusion::Sm90EVT<Compute<cutlass::homogeneous_multiply_add, ElementCompute>, Alpha,
                                          fusion::Sm90AccFetch, BiasVector>>;
  // CUTLASS specialises exactly this node, so that beta = 0 loads no C.
  using Linear = fusion::Sm90EVT<
      Compute<cutlass::homogeneous_multiply_add, cute::conditional_t<kActivates, ElementCompute, ElementD>>, Beta,
      fusion::Sm90SrcFetch<ElementC>, Scaled>;
  using Callbacks = cute::conditional_t<kActivates, fusion::Sm90EVT<Compute<Activation, ElementD>, Linear>, Linear>;
  using Arguments = typename Callbacks::Arguments;

  struct Inputs {
    float alpha = 1.0f, beta = 0.0f;
    float const* factors[2] = {nullptr, nullptr};  // null is 1
    void const* bias = nullptr;
  };

  static Arguments arguments(Inputs const& inputs) {
    typename Alpha::Arguments alpha{};
    alpha.scalars[0] = static_cast<ElementCompute>(inputs.alpha);
    alpha.scalars[1] = alpha.scalars[2] = ElementCompute(1);
    if constexpr (cute::is_same_v<ElementCompute, float>) {
      alpha.scalar_ptrs[1] = inputs.factors[0];
      alpha.scalar_ptrs[2] = inputs.factors[1];
    }
    // With a batch stride other than 0 (of a scalar that has no pointer), the node reads the scales in
    // each tile's epilogue. With 0 it would read them in its constructor, which runs before
    // griddepcontrol.wait, when the previous kernel may still be writing them.
    cute::get<2>(alpha.dScalar[0]) = 1;

    typename Beta::Arguments beta{};
    beta.scalars[0] = static_cast<ElementCompute>(inputs.beta);

    typename Linear::Arguments linear{};
    linear.op_0 = beta;
    linear.op_2.op_0 = alpha;
    if constexpr (Where == Bias::AlongM) {
      linear.op_2.op_2.ptr_col = static_cast<ElementD const*>(inputs.bias);
    }
    if constexpr (Where == Bias::AlongN) {
      linear.op_2.op_2.ptr_row = static_cast<ElementD const*>(inputs.bias);
    }
    if constexpr (kActivates) {
      Arguments whole{};
      whole.op_0 = linear;
      return whole;
    } else {
      return linear;
    }
  }
};

}  // namespace tilewright
