"""The module of self-test kernels of a target, as `compile/building.py` takes modules: sources, a table of
rows, and a table source.

They are written on demand: no spec lists them, and only the self-test loads them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tilewright.declarations.table import FORMAT, Table
from tilewright.tools.self_test import forms
from tilewright.tools.self_test.forms import Form, Load

_FAMILY = "self_test"
_SOURCE = """\
// {form.name}
#include "tilewright/self_test/{form.header}"

namespace tilewright::self_test {{
using Probe = {form.probe};
static_assert(Probe::kOperandWords == {form.operand_words} && Probe::kResultWords == {form.result_words},
              "the host lays out other words than the kernel reads and writes");
}}  // namespace tilewright::self_test

TILEWRIGHT_SELF_TEST_KERNEL({form.kernel}, tilewright::self_test::Probe)
"""
_TABLE = """\
#include "tilewright/self_test/args.h"
#include "tilewright/launcher.hpp"

#define TILEWRIGHT_KERNELS(X) \\
{kernels}

TILEWRIGHT_TABLE({module}, TILEWRIGHT_KERNELS, tilewright_self_test_args)
"""


def source_of(form: Form | Load) -> str:
    """The CUDA source of a form's kernel."""
    return _SOURCE.format(form=form)


def files_of(arch: str) -> dict[str, str]:
    """The files of a target's module, by name."""
    module = f"self_test_{arch}"
    rows, sources = [], {}
    for form in forms.of_arch(arch):
        source = f"{form.kernel}.cu"
        sources[source] = source_of(form)
        row = {
            "name": form.kernel,
            "source": source,
            "sha256": hashlib.sha256(sources[source].encode()).hexdigest(),
            "arch": arch,
            "defines": [],
            "instructions": [form.opcode] if isinstance(form, Form) else [],  # a build looks for no loads
            "config": {},
            "facts": {},
        }
        rows.append(json.dumps(row))
    head = {"format": FORMAT, "module": module, "family": _FAMILY}
    table = json.dumps(head)[:-1] + ', "kernels": [\n' + ",\n".join(rows) + "\n]}\n"
    kernels = " \\\n".join(f"  X({form.kernel})" for form in forms.of_arch(arch))
    return {**sources, "table.json": table, "table.cc": _TABLE.format(module=module, kernels=kernels)}


def write(arch: str, folder: Path) -> Table:
    """Writes a target's module into a folder, and reads its table."""
    for name, text in files_of(arch).items():
        (folder / name).write_text(text, encoding="utf-8")
    return Table.read(folder / "table.json")
