// The parameters of the form for groups that divide k (along_k.hpp).
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/params.hpp"

namespace tilewright::grouped_gemm {

// The groups whose tensor maps a CTA has at a time (cta_maps.hpp).
constexpr int kCtaMaps = 8;

// What CTAs make the maps of groups from.
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
