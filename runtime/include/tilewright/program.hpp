// A kernel whose machine code another compiler than nvcc has made: the fat binary that its unit embeds, and the
// functions that the driver makes of it. Nothing links with the driver (launch.hpp).
#pragma once

#include <cuda.h>

#include <atomic>

namespace tilewright {

struct Program {
  char const* name;   // of the kernel's function
  void const* image;  // the fat binary
  std::atomic<CUlibrary> library{nullptr};
  std::atomic<struct LoadedProgram const*> loaded{nullptr};  // by context (program_host.hpp)

  constexpr Program(char const* kernel_name, void const* fat_binary) : name(kernel_name), image(fat_binary) {}
};

}  // namespace tilewright

// Embeds kernel.fatbin of the compiler's current folder, where cuobjdump looks for machine code.
#define TILEWRIGHT_PROGRAM(NAME)                                                            \
  asm(".pushsection .nv_fatbin, \"a\"\n"                                                    \
      ".balign 8\n"                                                                         \
      "tilewright_image_of_" #NAME                                                          \
      ":\n"                                                                                 \
      ".incbin \"kernel.fatbin\"\n"                                                         \
      ".popsection\n");                                                                     \
  extern "C" __attribute__((visibility("hidden"))) char const tilewright_image_of_##NAME[]; \
  static tilewright::Program& tilewright_program_of_##NAME() {                              \
    static tilewright::Program program(#NAME, tilewright_image_of_##NAME);                  \
    return program;                                                                         \
  }
