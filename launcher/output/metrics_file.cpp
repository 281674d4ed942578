// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/metrics_file.h"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/file_kind.h"
#include "core/io/run_log.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

/// Far beyond any that a run writes.
constexpr std::size_t kLongestLine = std::size_t{1} << 16;

constexpr const char* kMetricsHint =
    "free space or look after the disk; then the run can be resumed";

[[noreturn]] void cannot_read(const std::string& file) {
  throw EnvironmentError(fmt::format("{}: cannot be read", file), read_hint(EIO));
}

bool lies_before(const std::string& line, const ResumeRecord& resumed) {
  if (line.size() > kLongestLine) return false;
  const auto record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer())
    return false;
  const auto step = record["step"].get<std::int64_t>();
  if (record.contains("val_loss") && step == resumed.step) return resumed.evaluated;
  if (record.contains("rollback") && step == resumed.step) return false;
  return step <= resumed.step;
}

}  // namespace

void keep_metrics_before(const std::string& file, const ResumeRecord& resumed) {
  if (!is_there(file)) return;
  std::ifstream input(file);
  if (!input) cannot_read(file);
  const std::string temporary = file + ".tmp";
  RunLog output(temporary);
  for (std::string line; std::getline(input, line);)
    if (!input.eof() && lies_before(line, resumed)) output.write_line(line);
  if (input.bad()) cannot_read(file);  // the end of what was read is not the file's
  output.close();
  if (!output.error().empty()) throw EnvironmentError(output.error(), kMetricsHint);
  std::error_code error;
  std::filesystem::rename(temporary, file, error);
  if (error)
    throw EnvironmentError(
        fmt::format("{}: cannot be renamed from {}: {}", file, temporary, error.message()),
        kMetricsHint);
}

}  // namespace lockstep
