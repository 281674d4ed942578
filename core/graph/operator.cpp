// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operator.h"

#include "lockstep/error.h"

namespace lockstep {

std::string_view name_of(OpKind kind) {
  switch (kind) {
#define LOCKSTEP_OP(Type, stem) \
  case OpKind::stem:            \
    return #stem;
#include "core/graph/op_list.inc"
#undef LOCKSTEP_OP
  }
  throw InternalError("unknown operator kind");
}

std::vector<ValueId> Operator::gradient(GradientBuilder&,
                                        const Node&,
                                        std::span<const ValueId>) const {
  return {};
}

}  // namespace lockstep
