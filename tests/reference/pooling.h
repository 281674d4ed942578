// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/reference.h"

namespace lockstep::test {

ReferenceOutputs max_pool2d_reference(const ReferenceArgs& args);
ReferenceOutputs max_pool2d_bwd_reference(const ReferenceArgs& args);
ReferenceOutputs avg_pool2d_reference(const ReferenceArgs& args);
ReferenceOutputs avg_pool2d_bwd_reference(const ReferenceArgs& args);
ReferenceOutputs global_avg_pool_reference(const ReferenceArgs& args);
ReferenceOutputs global_avg_pool_bwd_reference(const ReferenceArgs& args);

}  // namespace lockstep::test
