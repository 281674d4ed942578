// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/shared_choices.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "parallel/comm/exchanged_text.h"
#include "parallel/comm/told_error.h"

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
  const std::vector<std::string> errors =
      gather_texts(ranks, own ? told_text(told_error(own)) : "");
  const auto thrown =
      std::ranges::find_if_not(errors, [](const std::string& error) { return error.empty(); });
  if (thrown == errors.end()) return;
  if (std::ranges::count(errors, *thrown) == std::ssize(errors)) std::rethrow_exception(own);
  throw_told(nlohmann::json::parse(*thrown), fmt::format("on rank {}: ", thrown - errors.begin()));
}

}  // namespace

void compile_with_shared_choices(RankContext& context, const std::function<void()>& compile) {
  if (context.size() == 1) return compile();
  Communicator& ranks = context.host_communicator();
  Backend& device = context.backend();
  // Asked of rank 0 alone: devices of several kinds must not make ranks wait in several places.
  const bool comes_first = context.rank() == 0 && device.chooses_algorithms();
  std::exception_ptr error;
  if (comes_first) error = caught(compile);
  const std::string choices = broadcast_text(ranks, comes_first ? device.choices() : "");
  if (!comes_first)
    error = caught([&] {
      if (!choices.empty()) device.take_choices(choices);
      compile();
    });
  agree_on_errors(ranks, error);
}

}  // namespace lockstep
