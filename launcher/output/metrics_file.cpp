// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/metrics_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <unistd.h>

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

/// The line of a step before the last one that the run resumes from. What is not of a step may
/// stand further down: a checkpoint is written while steps follow.
bool is_older(const std::string& line, const ResumeRecord& resumed) {
  if (line.size() > kLongestLine) return false;
  const auto record = nlohmann::json::parse(line, nullptr, false);
  return record.is_object() && record.contains("loss") && record.contains("step") &&
         record["step"].is_number_integer() && record["step"].get<std::int64_t>() < resumed.step;
}

/// Of a file, from the end of a line on.
struct Tail {
  std::uint64_t offset = 0;
  std::string text;
};

/// The lines after the last one that was written before the step that the run resumes from: lines
/// before it are older still, and stay. Reads no more than twice of what follows on it.
Tail lines_in_question(std::ifstream& input, std::uint64_t size, const ResumeRecord& resumed) {
  Tail tail;
  for (std::uint64_t length = kLongestLine;; length *= 2) {
    tail.offset = size - std::min(size, length);
    tail.text.resize(size - tail.offset);
    input.seekg(std::streamoff(tail.offset));
    if (!input.read(tail.text.data(), std::streamsize(tail.text.size()))) break;
    // The first line of a piece may be half of one.
    std::size_t end = tail.text.rfind('\n');
    while (end != std::string::npos && end > 0) {
      const std::size_t before = tail.text.rfind('\n', end - 1);
      const bool whole = before != std::string::npos || tail.offset == 0;
      const std::size_t start = before == std::string::npos ? 0 : before + 1;
      if (whole && is_older(tail.text.substr(start, end - start), resumed)) {
        tail.offset += end + 1;
        tail.text.erase(0, end + 1);
        return tail;
      }
      end = before;
    }
    if (tail.offset == 0) return tail;
  }
  tail = {};
  return tail;
}

/// Whether the lines of `tail` that stay come first, with how many bytes they have.
bool kept_come_first(const std::string& tail, const ResumeRecord& resumed, std::size_t& bytes) {
  bytes = 0;
  bool dropped = false;
  for (std::size_t start = 0, end; (end = tail.find('\n', start)) != std::string::npos;
       start = end + 1) {
    if (!lies_before(tail.substr(start, end - start), resumed))
      dropped = true;
    else if (dropped)
      return false;
    else
      bytes = end + 1;
  }
  return true;
}

void rewrite(const std::string& file, std::ifstream& input, const ResumeRecord& resumed) {
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

/// Not through a link, which RunLog refuses as well.
void shorten(const std::string& file, std::uint64_t bytes) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  const bool done = descriptor >= 0 && ftruncate(descriptor, off_t(bytes)) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!done)
    throw EnvironmentError(
        fmt::format("{}: cannot be shortened: {}", file, std::generic_category().message(error)),
        kMetricsHint);
}

}  // namespace

void keep_metrics_before(const std::string& file, const ResumeRecord& resumed) {
  if (!is_there(file)) return;
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(file, error);
  std::ifstream input(file);
  if (!input || error) cannot_read(file);
  const Tail tail = lines_in_question(input, size, resumed);
  if (!input) cannot_read(file);
  std::size_t kept = 0;
  if (!kept_come_first(tail.text, resumed, kept)) {
    input.seekg(0);
    return rewrite(file, input, resumed);
  }
  if (tail.offset + kept < size) shorten(file, tail.offset + kept);
}

}  // namespace lockstep
