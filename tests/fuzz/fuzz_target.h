// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/error.h"
#include "tests/fuzz/heap_meter.h"

/// What libFuzzer and replay_main.cpp call, once an input; each file here defines one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

namespace lockstep::fuzz {

/// Inputs of some megabytes that cost a parser the most memory and time for their size; run by
/// replay_main.cpp. Targets without one leave it undefined.
[[gnu::weak]] std::vector<std::string> large_inputs();

/// In addition to twice the input, what reading it may occupy.
inline constexpr std::int64_t kSpareBytes = std::int64_t{64} << 20;

/// Ends the process: a finding.
[[noreturn]] inline void finding(const std::string& what) {
  std::fprintf(stderr, "FINDING: %s\n", what.c_str());
  std::abort();
}

inline void require(bool condition, const std::string& what) {
  if (!condition) finding(what);
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t bytes) {
  return {reinterpret_cast<const char*>(data), bytes};
}

/// `unit` again and again, for large_inputs().
inline std::string repeated(std::string_view unit, std::size_t bytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) text += unit;
  return text;
}

/// Calls `parse`, which may refuse its input by an error for users and by nothing else: an
/// InternalError, any other exception, and memory beyond twice `bytes` + 64 MiB are findings.
template <typename Parse>
void run_parser(std::size_t bytes, const Parse& parse) {
  start_heap_meter();
  try {
    parse();
  } catch (const InternalError& error) {
    finding(error.what());
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error without words");
  }
  const std::int64_t peak = peak_heap_bytes();
  if (peak > 2 * std::int64_t(bytes) + kSpareBytes)
    finding(fmt::format("{} bytes of memory for an input of {} bytes", peak, bytes));
}

}  // namespace lockstep::fuzz
