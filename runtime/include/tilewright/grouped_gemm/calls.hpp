// What generated `grouped_gemm` kernels of our own main loops export: the entry points of a kernel's forms, and the
// functions of its descriptor.
#pragma once

#include "tilewright/descriptor.hpp"
#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/params.hpp"
#include "tilewright/grouped_gemm/work.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::grouped_gemm {

// A kernel before the product: writes the tensor maps of A and B for each group's part of k, in which rows are as long
// as the group's k. One warp writes the maps of A, the other one those of B, a thread for each group. `kUnit`: groups
// have multiples of it.
//
// The product that follows may start at once, because it waits for the end of this kernel before it reads a map. This
// kernel waits for the end of the kernel before it, which may be a product that reads maps in the same workspace.
template <class Traits, int kUnit>
__global__ void write_parts(CUtensorMap const a, CUtensorMap const b, char const* address_a, char const* address_b,
                            int rows_a, int rows_b, int const* sizes, int groups, int k, CUtensorMap* maps) {
  constexpr int kLanes = 32;
  if constexpr (Traits::Kernel::kPdl) {
    sm90::allow_next_kernel();
    sm90::wait_for_previous_kernel();
  }
  int const lane = threadIdx.x % kLanes, of_b = threadIdx.x / kLanes;
  int k_begin = 0;  // of the next group
  for (int first = 0; first < groups; first += kLanes) {
    int const group = first + lane;
    int const requested = group < groups ? sizes[group] : 0;
    int begin = 0, size = 0;  // of the thread's group
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      int const next = size_of_group(__shfl_sync(~0u, requested, i), k - k_begin, kUnit);
      begin = i == lane ? k_begin : begin;
      size = i == lane ? next : size;
      k_begin += next;
    }
    if (size > 0) {
      CUtensorMap* const map = &maps[group * 2 + of_b];
      *map = of_b ? b : a;
      sm90::replace_map(map, (of_b ? address_b : address_a) + int64_t(begin) * (of_b ? rows_b : rows_a), size);
    }
  }
}

// Enqueues `write_parts` for a launch of the kernel that `Traits` describes.
template <class Traits, int kUnit>
cudaError_t enqueue_write_parts(PartsOfK const& parts, cudaStream_t stream) {
  cudaLaunchAttribute pdl{};
  pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  pdl.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(64);
  config.stream = stream;
  config.attrs = &pdl;
  config.numAttrs = Traits::Kernel::kPdl ? 1 : 0;
  return cudaLaunchKernelEx(&config, write_parts<Traits, kUnit>, *parts.a, *parts.b,
                            static_cast<char const*>(parts.address_a), static_cast<char const*>(parts.address_b),
                            parts.rows_a, parts.rows_b, parts.sizes, parts.groups, parts.k, parts.maps);
}

// The entry point of a form that is launched without clusters. `Traits`: a FormTraits.
template <class Traits>
__global__ void __launch_bounds__(Traits::Kernel::kThreads, 1)
    run_form(__grid_constant__ typename Traits::Kernel::Params const params) {
  TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(1024) char tilewright_shared_memory[];
                         typename Traits::Kernel kernel; kernel(params, tilewright_shared_memory);)
}

// The same for a form with clusters. TILEWRIGHT_LEAN_GEMM_KERNEL says why `__cluster_dims__` has no size.
template <class Traits>
__global__ void __cluster_dims__() __launch_bounds__(Traits::Kernel::kThreads, 1)
    run_form_in_clusters(__grid_constant__ typename Traits::Kernel::Params const params) {
  TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(1024) char tilewright_shared_memory[];
                         typename Traits::Kernel kernel; kernel(params, tilewright_shared_memory);)
}

// Describes a form of the kernel that `Traits` describes.
template <class Traits, Form kForm, bool kClusters = false>
struct FormTraits {
  using Kernel = typename Traits::Kernel::template Of<kForm, kClusters>;
  static void const* entry() {
    if constexpr (kClusters) {
      return reinterpret_cast<void const*>(&run_form_in_clusters<FormTraits>);
    } else {  // not both: each function that is named is compiled
      return reinterpret_cast<void const*>(&run_form<FormTraits>);
    }
  }
};

// The functions of a kernel's descriptor (abi.h). They pass the kernel's Facts to the host code that the module's table
// has once for all kernels (host.hpp).
template <class Traits>
struct Calls {
  using Kernel = typename Traits::Kernel;
  using Args = tilewright_grouped_gemm_args;

  static int32_t can_implement(void const* args) { return grouped_gemm::can_implement(facts(), args); }

  static int64_t workspace_bytes(void const* args) { return grouped_gemm::workspace_bytes(facts(), args); }

  static int32_t launch(void const* args, void* workspace, void* stream) {
    return grouped_gemm::launch(facts(), args, workspace, stream);
  }

 private:
  template <class Store>
  static constexpr Box box() {
    return {Store::kBoxBytes, Store::kBoxRows, Store::kSwizzle};
  }

  static constexpr Facts make_facts() {
    constexpr int kTileK = Kernel::kTileBytesK / Kernel::ElementA::kBytes;
    Facts facts{};
    facts.tile_m = Kernel::TileM;
    facts.tile_n = Kernel::TileN;
    facts.tile_k = kTileK;
    facts.element_bytes = Kernel::ElementA::kBytes;
    facts.bytes_d = Kernel::ElementD::kBytes;
    facts.lines = Kernel::Boxes;
    facts.packed_block = Kernel::kPackedBlock;
    facts.rows_a = {Kernel::kBitsA, Kernel::kRowBytesA};
    facts.rows_b = {Kernel::kBitsB, Kernel::kRowBytesB};
    facts.threads = Kernel::kThreads;
    facts.shared_bytes = Kernel::kSharedBytes;
    facts.addend_d = Kernel::ElementD::kAddend;
    facts.scales_a = Kernel::kOwnScalesA;
    facts.scales_b = Kernel::kOwnScalesB;
    facts.mn_a = Kernel::kMnA;
    facts.mn_b = Kernel::kMnB;
    facts.swapped = Kernel::kSwapped;
    facts.pdl = Traits::kPdl;
    facts.clusters = Kernel::kClusters;
    facts.splits = Kernel::kSplits;
    facts.own_maps = Kernel::kOwnMaps;
    facts.groups_of_k = Kernel::kGroupsOfK;
    facts.boxes = Kernel::Store::kBoxes;
    facts.floats = Kernel::kFloats;
    facts.box = box<typename Kernel::Store>();
    facts.forms_in_clusters[static_cast<int>(Form::kAny)] = &Traits::entry;
    if constexpr (Kernel::kFloats) {
      facts.float_box = box<typename Kernel::FloatBoxes>();
    }
    if constexpr (Kernel::kHasForms) {
      facts.forms[static_cast<int>(Form::kDense)] = &FormTraits<Traits, Form::kDense>::entry;
      facts.forms[static_cast<int>(Form::kRows)] = &FormTraits<Traits, Form::kRows>::entry;
      facts.forms[static_cast<int>(Form::kCounts)] = &FormTraits<Traits, Form::kCounts>::entry;
      facts.forms_in_clusters[static_cast<int>(Form::kDense)] = &FormTraits<Traits, Form::kDense, true>::entry;
      facts.forms_in_clusters[static_cast<int>(Form::kRows)] = &FormTraits<Traits, Form::kRows, true>::entry;
      facts.forms_in_clusters[static_cast<int>(Form::kCounts)] = &FormTraits<Traits, Form::kCounts, true>::entry;
    }
    if constexpr (Kernel::kOwnMaps) {
      facts.write_maps = &enqueue_write_parts<Traits, kTileK>;
    }
    return facts;
  }

  // A local variable, because in C++14 a static member of a template would need a second definition.
  static Facts const& facts() {
    static constexpr Facts kFacts = make_facts();
    return kFacts;
  }
};

}  // namespace tilewright::grouped_gemm

// Defines a kernel that is launched in clusters (see TILEWRIGHT_LEAN_GEMM_KERNEL), and its descriptor.
#define TILEWRIGHT_GROUPED_GEMM_KERNEL(NAME)                                                \
  extern "C" __global__ void __cluster_dims__()                                             \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params); \
  TILEWRIGHT_GROUPED_MMA_KERNEL(NAME)

// Defines a kernel without clusters, and its descriptor.
#define TILEWRIGHT_GROUPED_MMA_KERNEL(NAME)                                                                          \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::grouped_gemm::Calls<tilewright::NAME::Gemm>, 1, \
                           1024)
