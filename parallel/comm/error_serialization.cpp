// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/error_serialization.h"

#include <nlohmann/json.hpp>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/exception_text.h"

namespace lockstep {

using nlohmann::json;

namespace {

template <typename SomeError>
[[noreturn]] void throw_with(SomeError error, const json& serialized) {
  if (const auto names = serialized.find("parameters"); names != serialized.end())
    error.set_parameters(names->get<std::vector<std::string>>());
  throw error;
}

}  // namespace

json serialize_error(const std::exception_ptr& error) {
  const ExceptionText text = text_of(error);
  json result{{"error", text.message}, {"hint", text.hint}, {"code", int(text.code)}};
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    if (!e.parameters().empty()) result["parameters"] = e.parameters();
  } catch (...) {
    return result;
  }
  return result;
}

std::string serialized_error_text(const json& serialized) {
  return serialized.dump(-1, ' ', false, json::error_handler_t::replace);
}

void throw_serialized_error(const json& serialized, const std::string& before) {
  // Both have the tool's names already.
  const std::string message = as_written(before + serialized.at("error").get<std::string>());
  const std::string hint = as_written(serialized.at("hint").get<std::string>());
  const auto code = ExitCode(serialized.at("code").get<int>());
  if (code == ExitCode::out_of_memory) throw_with(OutOfMemory(message, hint), serialized);
  throw_with(Error(message, hint, code), serialized);
}

std::string text_of_rank_0(Communicator& communicator,
                           const std::function<std::string()>& compute) {
  std::string text, error;
  if (communicator.rank() == 0) {
    try {
      text = compute();
    } catch (...) {
      error = serialized_error_text(serialize_error(std::current_exception()));
    }
  }
  error = broadcast_string(communicator, error);
  if (!error.empty()) throw_serialized_error(json::parse(error));
  return broadcast_string(communicator, text);
}

}  // namespace lockstep
