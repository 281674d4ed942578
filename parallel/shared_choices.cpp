// SPDX-License-Identifier: Apache-2.0
#include "parallel/shared_choices.h"

#include <algorithm>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "parallel/exchanged_text.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::exception_ptr caught(const std::function<void()>& compile) {
  try {
    compile();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

/// {"message", "hint", "code"}; empty for no error.
std::string to_text(const std::exception_ptr& error) {
  if (error == nullptr) return {};
  json told;
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    told = {{"message", e.what()}, {"hint", e.hint()}, {"code", int(e.exit_code())}};
  } catch (const std::bad_alloc&) {
    told = {{"message", "out of memory on the host"},
            {"hint", ""},
            {"code", int(ExitCode::out_of_memory)}};
  } catch (const std::exception& e) {
    told = {{"message", e.what()}, {"hint", ""}, {"code", int(ExitCode::error)}};
  }
  return told.dump(-1, ' ', false, json::error_handler_t::replace);
}

[[noreturn]] void rethrow_of(std::ptrdiff_t rank, const std::string& text) {
  const json told = json::parse(text);
  const auto message = fmt::format("on rank {}: {}", rank, told["message"].get<std::string>());
  const auto hint = told["hint"].get<std::string>();
  const auto code = ExitCode(told["code"].get<int>());
  if (code == ExitCode::out_of_memory) throw OutOfMemory(message, hint);
  throw Error(message, hint, code);
}

/// Collective.
void agree_on_errors(Communicator& ranks, const std::exception_ptr& own) {
  const std::vector<std::string> errors = gather_texts(ranks, to_text(own));
  const auto thrown =
      std::ranges::find_if_not(errors, [](const std::string& error) { return error.empty(); });
  if (thrown == errors.end()) return;
  if (std::ranges::count(errors, *thrown) == std::ssize(errors)) std::rethrow_exception(own);
  rethrow_of(thrown - errors.begin(), *thrown);
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
