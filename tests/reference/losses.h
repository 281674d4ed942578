// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/reference.h"

namespace lockstep::test {

ReferenceOutputs softmax_cross_entropy_reference(const ReferenceArgs& args);
ReferenceOutputs mean_squared_error_reference(const ReferenceArgs& args);
ReferenceOutputs l1_loss_reference(const ReferenceArgs& args);
ReferenceOutputs huber_loss_reference(const ReferenceArgs& args);
ReferenceOutputs binary_cross_entropy_reference(const ReferenceArgs& args);
ReferenceOutputs distillation_loss_reference(const ReferenceArgs& args);

}  // namespace lockstep::test
