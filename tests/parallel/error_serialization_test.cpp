// SPDX-License-Identifier: Apache-2.0
// What is left of an exception when another rank throws it.
#include "parallel/comm/error_serialization.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

struct Thrown {
  std::string message, hint;
  ExitCode code;
  bool is_out_of_memory;
};

template <typename Exception>
Thrown thrown_after(const Exception& exception, const std::string& before = {}) {
  const std::string text =
      serialized_error_text(serialize_error(std::make_exception_ptr(exception)));
  try {
    throw_serialized_error(nlohmann::json::parse(text), before);
  } catch (const Error& error) {
    const bool out_of_memory = dynamic_cast<const OutOfMemory*>(&error) != nullptr;
    return {error.what(), error.hint(), error.exit_code(), out_of_memory};
  }
}

TEST(ToldError, KeepsMessageHintAndCode) {
  const Thrown thrown = thrown_after(EnvironmentError("no switch", "plug it in"), "on rank 3: ");
  EXPECT_EQ(thrown.message, "on rank 3: no switch");
  EXPECT_EQ(thrown.hint, "plug it in");
  EXPECT_EQ(thrown.code, ExitCode::environment);
  EXPECT_FALSE(thrown.is_out_of_memory);
}

TEST(ToldError, KeepsItsParametersInTheStyleOfATool) {
  set_parameter_style([](std::string_view name) { return "--" + std::string(name); });
  const auto own = std::make_exception_ptr(OutOfMemory("too large", "use a smaller `micro_batch`"));
  const std::string text = serialized_error_text(serialize_error(own));
  try {
    throw_serialized_error(nlohmann::json::parse(text));
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.hint(), "use a smaller --micro_batch");
    EXPECT_EQ(error.parameters(), std::vector<std::string>{"micro_batch"});
  }
  set_parameter_style(nullptr);
}

TEST(ToldError, QuotesAUsersBackticks) {
  set_parameter_style([](std::string_view name) { return "--" + std::string(name); });
  const Thrown thrown = thrown_after(ConfigError("`out` " + as_written("`lr`"), ""));
  set_parameter_style(nullptr);
  EXPECT_EQ(thrown.message, "--out `lr`");
}

TEST(ToldError, OfAFileSystemNamesTheFile) {
  const auto code = std::make_error_code(std::errc::no_space_on_device);
  const Thrown thrown = thrown_after(std::filesystem::filesystem_error("write", "runs/x", code));
  EXPECT_EQ(thrown.message, "runs/x: " + code.message());
  EXPECT_EQ(thrown.code, ExitCode::environment);
}

TEST(ToldError, StaysOneOfMemory) {
  EXPECT_TRUE(thrown_after(OutOfMemory("weights: 7 bytes", "")).is_out_of_memory);
  const Thrown host = thrown_after(std::bad_alloc());
  EXPECT_TRUE(host.is_out_of_memory);
  EXPECT_EQ(host.message, "out of memory on the host");
  EXPECT_NE(host.hint.find("`micro_batch`"), std::string::npos) << host.hint;
}

TEST(ToldError, OfAFileSystemWithoutAPathSaysWhatWasTried) {
  const auto code = std::make_error_code(std::errc::no_space_on_device);
  const Thrown thrown = thrown_after(std::filesystem::filesystem_error("current folder", code));
  EXPECT_NE(thrown.message.find("current folder"), std::string::npos) << thrown.message;
  EXPECT_EQ(thrown.code, ExitCode::environment);
}

TEST(ToldError, CanBeNoException) {
  const Thrown thrown = thrown_after(7);
  EXPECT_FALSE(thrown.message.empty());
  EXPECT_EQ(thrown.code, ExitCode::error);
}

TEST(ToldError, OfALibraryHasTheGeneralCode) {
  EXPECT_EQ(thrown_after(std::runtime_error("odd")).code, ExitCode::error);
}

TEST(ToldError, NamesFilesThatAreNotUtf8) {
  EXPECT_EQ(thrown_after(DataError("\xff.csv: empty")).message, "\xef\xbf\xbd.csv: empty");
}

}  // namespace
}  // namespace lockstep
