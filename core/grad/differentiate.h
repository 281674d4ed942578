// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/graph.h"

namespace lockstep {

/// Appends the backward pass of `loss`, which must be output 0 of an operator that is_loss(), and
/// has the gradient of every trained parameter that is not frozen accumulated into its flat slot;
/// what depends on frozen parameters alone has no backward pass. Uses of one value are added in
/// the order in which they were declared. Throws ConfigError: a trained parameter does not
/// influence the loss.
void differentiate(Graph& graph, ValueId loss);

}  // namespace lockstep
