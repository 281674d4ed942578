// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

std::string list(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + type.to_string();
  return "(" + text + ")";
}

}  // namespace

std::string describe(const KernelSpec& spec) {
  return fmt::format(
      "{} {} {} -> {}", name_of(spec.op.kind()), spec.path, list(spec.inputs), list(spec.outputs));
}

}  // namespace lockstep
