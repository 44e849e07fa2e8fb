"""Small real modules to build: plain CUDA kernels that nvcc compiles in a second or two."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.base import paths
from tilewright.compile.store import Store
from tilewright.declarations.table import Table

HEAD = """
#include <cuda_runtime.h>
#include <stdint.h>
#include "tilewright/abi.h"
namespace {{
int32_t can_implement(void const*) {{ return TILEWRIGHT_OK; }}
int64_t workspace_bytes(void const*) {{ return {number}; }}
int32_t launch(void const*, void*, void*) {{ return cudaSuccess; }}
}}
"""
TAIL = """
extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_{name} = {{
    TILEWRIGHT_ABI_VERSION, 0, 128, 1024, "{name}", &can_implement, &workspace_bytes, &launch}};
"""
PLAIN = 'extern "C" __global__ void {name}(float* x) {{ x[threadIdx.x] *= {number}; }}'

MMA = """
__device__ __forceinline__ void mma(float (&d)[4], uint64_t a, uint64_t b) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%0,%1,%2,%3}}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}}
extern "C" __global__ void {name}(float* x, uint64_t a, uint64_t b) {{
  float d[4] = {{0, 0, 0, 0}};
  asm volatile("wgmma.fence.sync.aligned;");
  mma(d, a, b);
  {between}
  mma(d, a, b);
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  for (int i = 0; i < 4; i++) x[threadIdx.x * 4 + i] = d[i];
}}
"""
TENSOR = MMA.replace("{between}", "")
SERIALIZED = "#include <cstdio>\n" + MMA.replace("{between}", 'printf("a call in between");')
SPILLING = """
extern "C" __global__ void __launch_bounds__(1024, 2) {name}(float* x) {{
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; i++) v[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; i++) x[i * 1024 + threadIdx.x] = v[i] * v[63 - i] + v[(i * 7) % 64];
}}
"""
STACK = """
extern "C" __global__ void {name}(float* x, int n) {{
  float v[256];
  for (int i = 0; i < 256; i++) v[(i * n) & 255] = x[i];
  x[0] = v[n & 255];
}}
"""
# As the generator's table binds them, without the C++ of TVM-FFI, which takes a second to compile.
TABLE = """
#include <string.h>
#include <tvm/ffi/c_api.h>
#include "tilewright/abi.h"
#define KERNELS(X) {kernels}
#define DECLARE(NAME) extern "C" __attribute__((weak)) tilewright_kernel const tilewright_##NAME;
KERNELS(DECLARE)
#define EXPORT(NAME) extern "C" __attribute__((visibility("default"))) \\
  int __tvm_ffi_##NAME(void*, TVMFFIAny const* arguments, int32_t, TVMFFIAny* result)
static int answer(int64_t value, TVMFFIAny* result) {{
  result->type_index = kTVMFFIInt;
  result->v_int64 = value;
  return 0;
}}
static char const* text(TVMFFIAny const& value) {{
  if (value.type_index == kTVMFFIRawStr) return value.v_c_str;
  return value.type_index == kTVMFFISmallStr ? value.v_bytes : TVMFFIBytesGetByteArrayPtr(value.v_obj)->data;
}}
EXPORT(number) {{
#define FIND(NAME) if (!strcmp(text(*arguments), #NAME) && &tilewright_##NAME) \\
    return answer(tilewright_##NAME.workspace_bytes(nullptr), result);
  KERNELS(FIND)
  return answer(-1, result);
}}
EXPORT(abi_version) {{ return answer(TILEWRIGHT_ABI_VERSION, result); }}
EXPORT(kernels) {{
#define ONE(NAME) + 1
  TVMFFIAny present[1 KERNELS(ONE)] = {{}};
  int32_t count = 0;
#define ADD(NAME) if (&tilewright_##NAME) {{ \\
    present[count].type_index = kTVMFFIRawStr; \\
    present[count++].v_c_str = #NAME; \\
  }}
  KERNELS(ADD)
  TVMFFIByteArray name = {{"ffi.Array", 9}};
  TVMFFIObjectHandle array;
  if (int error = TVMFFIFunctionGetGlobal(&name, &array)) return error;
  int error = TVMFFIFunctionCall(array, present, count, result);
  TVMFFIObjectDecRef(array);
  return error;
}}
"""


class Mini:
    """A generated module of small kernels below `root`, which a test may add to and edit."""

    def __init__(self, root: Path, module: str = "mini") -> None:
        self.folder = root / module
        self.folder.mkdir(parents=True)
        self.module = module
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, body: str = PLAIN, number: int = 1, **row: Any) -> Mini:
        """Adds a kernel whose `workspace_bytes` answers `number`."""
        return self.add_source(name, (HEAD + body + TAIL).format(name=name, number=number), **row)

    def add_source(self, name: str, text: str, suffix: str = ".cu", **row: Any) -> Mini:
        """Adds a kernel, or replaces the one of that name."""
        source = f"{name}{suffix}"
        (self.folder / source).write_text(text)
        self.rows = [each for each in self.rows if each["name"] != name]
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        empty = {"arch": "sm_90a", "defines": [], "instructions": [], "config": {}, "facts": {}}
        self.rows.append({"name": name, "source": source, "sha256": sha256, **empty, **row})
        return self

    def table(self) -> Table:
        """Writes table.json and table.cc and reads the former."""
        head = {"format": 1, "module": self.module, "family": "mini", "spec": "specs/mini.yaml"}
        rows = ",\n ".join(map(json.dumps, self.rows))
        path = self.folder / "table.json"
        path.write_text(f'{json.dumps(head)[:-1]}, "kernels": [\n {rows}\n]}}\n')
        kernels = " ".join(f"X({row['name']})" for row in self.rows)
        (self.folder / "table.cc").write_text(TABLE.format(kernels=kernels))
        return Table.read(path)


def toolchain_expected() -> bool:
    """In CI, and where the toolchain's wheels are installed; found out without what is tested."""
    try:
        importlib.metadata.distribution("nvidia-cuda-nvcc")
    except importlib.metadata.PackageNotFoundError:
        return bool(os.environ.get("CI"))
    return True


def python(code: str, *arguments: str | Path) -> tuple[list[str], dict[str, str]]:
    """A command and an environment that run `code` with tilewright importable, as here."""
    search = os.pathsep.join([str(paths.include_dir().parent), *filter(None, sys.path)])
    return [sys.executable, "-c", code, *map(str, arguments)], {**os.environ, "PYTHONPATH": search}


BUILD = """
import sys
from pathlib import Path
from tilewright.compile.building import build
from tilewright.compile.store import Store
from tilewright.declarations.table import Table
table, cache, jobs, launcher, *names = sys.argv[1:]
report = build([Table.read(Path(table))], names or None, store=Store(Path(cache)), jobs=int(jobs),
               launcher=launcher.split())
print(report.explain_failures(), *sorted(unit.status for unit in report.units))
sys.exit(not report.ok)
"""


def build_process(
    table: Table, store: Store, jobs: int, launcher: Sequence[str] = (), names: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """A build in a process of its own."""
    return python(BUILD, table.path, store.root, str(jobs), " ".join(launcher), *names)
