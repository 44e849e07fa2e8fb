// The host code of `grouped_gemm` kernels (params.hpp), compiled once, in a module's table.
#pragma once

#include <cstdint>

#include "tilewright/adapter.hpp"
#include "tilewright/any_kernel.hpp"
#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/maker.hpp"
#include "tilewright/grouped_gemm/params.hpp"

namespace tilewright::grouped_gemm {

namespace {

// The `Host` (adapter.hpp) of a kernel with these facts.
struct Host {
  using Args = grouped_gemm::Args;

  Facts const& facts;

  bool can_implement(Args const& args) const { return Maker(facts, args).can_implement(); }

  int64_t workspace_bytes(Args const& args) const { return Maker(facts, args).workspace_bytes(); }

  cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) const {
    Maker const maker(facts, args);
    Form const form = form_of(args, maker);
    bool const in_clusters = form == Form::kAny || maker.cluster().size() > 1;
    void const* const entry = (in_clusters ? facts.forms_in_clusters : facts.forms)[static_cast<int>(form)]();
    sm90::Launching launching{maker.cluster(), 0, false, workspace, stream};
    LaunchShape shape{};
    shape.block = dim3(facts.threads);
    shape.smem_bytes = facts.shared_bytes;
    shape.pdl = facts.pdl;
    cudaError_t error =
        sm90::prepare<AnyKernel>(context, entry, args.tactic, launching.cluster, shape, launching.at_once);
    if (error != cudaSuccess) {
      return error;
    }
    int most = 0;
    error = clusters_at_once(context, entry, shape, INT32_MAX, most);
    if (error != cudaSuccess) {
      return error;
    }
    launching.all = most == launching.at_once;
    HostAlongKParams params;
    error = maker.make_params(launching, form, params);
    if (error != cudaSuccess) {
      return error;
    }
    shape.grid = dim3(params.groups.shares.clusters * launching.cluster.size());
    return in_clusters ? tilewright::launch<AnyKernel>(context, entry, &params, shape, stream)
                       : launch_without_clusters(context, entry, &params, shape, stream);
  }

 private:
  // The form that a launch runs (form.hpp).
  Form form_of(Args const& args, Maker const& maker) const {
    bool const has_forms = facts.forms[static_cast<int>(Form::kDense)] != nullptr;
    if (facts.groups_of_k) {  // then it is that of along_k.hpp or mn_along_k.hpp
      bool const along_k = args.grouping == TILEWRIGHT_GROUPING_K_SIZES && maker.floats() != Floats::kThreads;
      return has_forms && along_k ? Form::kDense : Form::kAny;
    }
    if (!has_forms || maker.epilogue_through_smem() || args.head_gap != 0) {
      return Form::kAny;
    }
    switch (args.grouping) {
      case TILEWRIGHT_GROUPING_NONE:
        return Form::kDense;
      case TILEWRIGHT_GROUPING_ROW_INDEX:
        return Form::kRows;
      case TILEWRIGHT_GROUPING_ROWS_VALID:
      case TILEWRIGHT_GROUPING_ENDS:
        return Form::kCounts;
      default:
        return Form::kAny;
    }
  }
};

}  // namespace

int32_t can_implement(Facts const& facts, void const* args) { return Entries<Host>::can_implement({facts}, args); }

int64_t workspace_bytes(Facts const& facts, void const* args) { return Entries<Host>::workspace_bytes({facts}, args); }

int32_t launch(Facts const& facts, void const* args, void* workspace, void* stream) {
  return Entries<Host>::launch({facts}, args, workspace, stream);
}

}  // namespace tilewright::grouped_gemm
