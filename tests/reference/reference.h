// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/exec/run_state.h"
#include "core/graph/operator.h"

namespace lockstep::test {

/// What a double-precision reference sees: the operator, its types, and every input as doubles.
struct ReferenceArgs {
  const Operator& op;
  std::vector<TensorType> input_types;
  std::vector<TensorType> output_types;
  std::vector<std::vector<double>> inputs;
  std::string path;
  RunState state;
  std::shared_ptr<const Operator> owner = {};  ///< keeps `op` alive where a test case made it
};

/// One vector per output, in the order of Operator::infer, without what accumulation adds.
using ReferenceOutputs = std::vector<std::vector<double>>;
using Reference = ReferenceOutputs (*)(const ReferenceArgs&);

/// Checks that `analytic` is the gradient of sum_i output_grad[i] * output[i] with respect to input
/// `input`, by central differences of `forward` in double. Adds a failure that names the worst
/// element. The function must be smooth within `step` around the inputs.
void check_gradient(const std::string& what,
                    Reference forward,
                    const ReferenceArgs& args,
                    int output,
                    const std::vector<double>& output_grad,
                    int input,
                    const std::vector<double>& analytic,
                    double step = 1e-4);

}  // namespace lockstep::test
