// SPDX-License-Identifier: Apache-2.0
// What a Program does after its kernels where values that are not finite are looked for.
#include <array>

#include "core/exec/program.h"

namespace lockstep {
namespace {

/// As bf16, and as fp32, all ones are a NaN.
constexpr std::array<unsigned char, 4> kNan{0xff, 0xff, 0xff, 0xff};

}  // namespace

void Program::check_finite(FiniteReport* report) {
  report_ = report;
  resolve_watchdog();
}

bool Program::poison_after(std::string_view path) {
  poisoned_node_ = -1;
  bool found = path.empty();
  for (const Step& step : forward_.apart) {
    if (step.node < 0) continue;
    const Node& node = graph_.nodes()[std::size_t(step.node)];
    if (path.empty() || node.path != path) continue;
    const TensorType& type = graph_.value(node.outputs[0]).type;
    found = true;  // a program for no samples has nothing to poison
    if (is_float(type.dtype) && type.elems() > 0) poisoned_node_ = step.node;
  }
  resolve_watchdog();
  return found;
}

void Program::look_after(int index) {
  const Node& node = graph_.nodes()[std::size_t(index)];
  if (index == poisoned_node_)
    backend_.copy_to_device(address_of(node.outputs[0], memory_),
                            kNan.data(),
                            size_in_bytes(graph_.value(node.outputs[0]).type.dtype));
  if (report_ == nullptr || report_->found) return;
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const ValueId output = node.outputs[o];
    const NonFiniteCount count =
        count_non_finite(backend_, address_of(output, memory_), graph_.value(output).type);
    if (count.non_finite == 0) continue;
    *report_ = {.found = true,
                .node = given_number(index),
                .op = std::string(name_of(node.op->kind())),
                .path = node.path,
                .backward = index >= plan_.first_backward_node,
                .output = int(o),
                .count = count};
    return;
  }
}

}  // namespace lockstep
