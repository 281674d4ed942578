// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/error_serialization.h"

#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>

#include "core/base/file_kind.h"
#include "lockstep/error.h"

namespace lockstep {

using nlohmann::json;

namespace {

json serialized(const std::string& message, const std::string& hint, ExitCode code) {
  return {{"error", message}, {"hint", hint}, {"code", int(code)}};
}

template <typename SomeError>
[[noreturn]] void throw_with(SomeError error, const json& serialized) {
  if (const auto names = serialized.find("parameters"); names != serialized.end())
    error.set_parameters(names->get<std::vector<std::string>>());
  throw error;
}

}  // namespace

json serialize_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    json result = serialized(e.what(), e.hint(), e.exit_code());
    if (!e.parameters().empty()) result["parameters"] = e.parameters();
    return result;
  } catch (const std::bad_alloc&) {
    return serialized("out of memory on the host", "", ExitCode::out_of_memory);
  } catch (const std::filesystem::filesystem_error& e) {
    const std::string place = e.path1().empty() ? "" : e.path1().string() + ": ";
    return serialized(
        place + e.code().message(), read_hint(e.code().value()), ExitCode::environment);
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
  if (code == ExitCode::out_of_memory) throw_with(OutOfMemory(message, hint), serialized);
  throw_with(Error(message, hint, code), serialized);
}

}  // namespace lockstep
