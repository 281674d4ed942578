// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/error_serialization.h"

#include <new>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep {

using nlohmann::json;

json serialize_error(const std::exception_ptr& error) {
  const auto serialized = [](const std::string& message, const std::string& hint, ExitCode code) {
    return json{{"error", message}, {"hint", hint}, {"code", int(code)}};
  };
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return serialized(e.what(), e.hint(), e.exit_code());
  } catch (const std::bad_alloc&) {
    return serialized("out of memory on the host", "", ExitCode::out_of_memory);
  } catch (const std::exception& e) {
    return serialized(e.what(), "", ExitCode::error);
  }
}

std::string serialized_error_text(const json& serialized) {
  return serialized.dump(-1, ' ', false, json::error_handler_t::replace);
}

void throw_serialized_error(const json& serialized, const std::string& before) {
  const std::string message = before + serialized.at("error").get<std::string>();
  const auto hint = serialized.at("hint").get<std::string>();
  const auto code = ExitCode(serialized.at("code").get<int>());
  if (code == ExitCode::out_of_memory) throw OutOfMemory(message, hint);
  throw Error(message, hint, code);
}

}  // namespace lockstep
