// The parameters of the form for groups that divide k (along_k.hpp).
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/params.hpp"

namespace tilewright::grouped_gemm {

// The number of groups whose tensor maps a CTA keeps in the workspace (cta_maps.hpp).
constexpr int kCtaMaps = 8;

// The addresses of the caller's A and B, of which CTAs make the maps of groups.
struct OperandsOfK {
  char const *a, *b;
};

template <class HeadsOf>
struct AlongKParamsOf : ParamsOf<HeadsOf> {
  OperandsOfK of_k;
  CUtensorMap* cta_maps;  // room for kCtaMaps of A and of B for each CTA
};

using HostAlongKParams = AlongKParamsOf<HeadFields>;

}  // namespace tilewright::grouped_gemm
