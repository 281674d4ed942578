// SPDX-License-Identifier: Apache-2.0
#include "core/ops/all_ops.h"

namespace lockstep {

// Backends walk the operator list knowing the classes by name alone, so op_cast is instantiated
// here for each of them.
#define LOCKSTEP_OP(Type, stem) template const ops::Type& op_cast<ops::Type>(const Operator&);
#include "core/graph/op_list.inc"
#undef LOCKSTEP_OP

}  // namespace lockstep
