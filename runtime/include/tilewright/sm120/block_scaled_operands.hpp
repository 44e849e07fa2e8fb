// The operands of BlockScaledMainloop: how they lie in the boxes of a stage, and which instruction multiplies them.
#pragma once

#include "tilewright/sm120/fragments.hpp"
#include "tilewright/sm120/mma.hpp"
#include "tilewright/sm120/narrow_fragments.hpp"

namespace tilewright::sm120 {

// Policies for the rows of an operand's box: their bytes, and how fragments are loaded from them.
struct WideRows {
  static constexpr int kBytes = kBoxRowBytes;
  static constexpr bool kUnpacks = false;
  template <int Rows>
  using FragmentsA = sm120::FragmentsA<Rows, false>;
  template <int Columns>
  using FragmentsB = sm120::FragmentsB<Columns, false>;
};
struct NarrowRows {
  static constexpr int kBytes = kNarrowRowBytes;
  static constexpr bool kUnpacks = false;
  template <int Rows>
  using FragmentsA = NarrowFragmentsA<Rows>;
  template <int Columns>
  using FragmentsB = NarrowFragmentsB<Columns>;
};
struct UnpackedRows {  // FP4 beside FP8
  static constexpr int kBytes = kNarrowRowBytes;
  static constexpr bool kUnpacks = true;
  template <int Rows>
  using FragmentsA = UnpackedFragmentsA<Rows>;
  template <int Columns>
  using FragmentsB = UnpackedFragmentsB<Columns>;
};

// `Mma_`: a form of mma.sync with scale factors (mma.hpp). `kSteps_`: steps of a box along k, one instruction each.
template <class Mma_, class RowsA_, class RowsB_, int kSteps_>
struct BlockScaledOperands {
  using Mma = Mma_;
  using RowsA = RowsA_;
  using RowsB = RowsB_;
  static constexpr int kSteps = kSteps_;
  static constexpr bool kUnpacks = RowsA::kUnpacks || RowsB::kUnpacks;
};

// Operands that are not unpacked, in boxes with rows of 128 bytes of k or of 64.
template <class Mma>
using WideOperands = BlockScaledOperands<Mma, WideRows, WideRows, 4>;
template <class Mma>
using NarrowOperands = BlockScaledOperands<Mma, NarrowRows, NarrowRows, 2>;

}  // namespace tilewright::sm120
