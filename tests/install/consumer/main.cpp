// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <lockstep/lockstep.h>
#include <memory>

#include "core/grad/differentiate.h"
#include "core/ops/linear.h"
#include "core/ops/mean_squared_error.h"

namespace ls = lockstep;

// A linear regression, traced, differentiated and verified by the installed library.
int main() {
  ls::Graph graph;
  const ls::ValueId x = graph.add_input("x", {{8, 4}});
  const ls::ValueId target = graph.add_input("target", {{8, 1}});
  const ls::ValueId sample_weight = graph.add_input("sample_weight", {{1}});
  const ls::ValueId weight = graph.add_parameter({.name = "weight", .shape = {1, 4}});
  const ls::ValueId y =
      graph.add_node(std::make_shared<ls::ops::Linear>(false), {x, weight}, "linear", {}).front();
  const ls::ValueId loss = graph
                               .add_node(std::make_shared<ls::ops::MeanSquaredError>(true),
                                         {y, target, sample_weight},
                                         "loss",
                                         {})
                               .front();
  ls::differentiate(graph, loss);
  ls::verify(graph);
  std::puts(ls::to_text(graph).c_str());
}
