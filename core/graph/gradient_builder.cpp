// SPDX-License-Identifier: Apache-2.0
#include "core/graph/gradient_builder.h"

#include <utility>

namespace lockstep {

std::vector<ValueId> GradientBuilder::emit(const Node& forward,
                                           std::shared_ptr<const Operator> op,
                                           std::vector<ValueId> inputs) {
  return graph_.add_node(
      std::move(op), std::move(inputs), forward.path, forward.where, NodePhase::backward);
}

}  // namespace lockstep
