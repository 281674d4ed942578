// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/algorithm_broadcast.h"

#include <exception>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>

#include "core/exec/agreement.h"
#include "core/exec/backend.h"
#include "lockstep/error.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/error_serialization.h"

namespace lockstep {
namespace {

std::exception_ptr caught(const std::function<void()>& compile) {
  try {
    compile();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

/// Collective.
void agree_on_errors(Communicator& ranks, const std::exception_ptr& own) {
  const std::string text = own ? serialized_error_text(serialize_error(own)) : "";
  const FirstText first = first_text(ranks, text);
  if (first.rank < 0) return;
  if (all_ranks(ranks, text == first.text)) std::rethrow_exception(own);
  throw_serialized_error(nlohmann::json::parse(first.text),
                         fmt::format("on rank {}: ", first.rank));
}

}  // namespace

void compile_with_broadcast_algorithms(RankContext& context, const std::function<void()>& compile) {
  if (context.size() == 1) return compile();
  Communicator& ranks = context.host_communicator();
  Backend& device = context.backend();
  // Rank 0 alone decides: with devices of several kinds ranks would call different collectives.
  const bool comes_first = context.rank() == 0 && device.chooses_algorithms();
  std::exception_ptr error;
  if (comes_first) error = caught(compile);
  const std::string choices = broadcast_string(ranks, comes_first ? device.choices() : "");
  if (!comes_first)
    error = caught([&] {
      if (!choices.empty()) device.take_choices(choices);
      compile();
    });
  agree_on_errors(ranks, error);
}

}  // namespace lockstep
