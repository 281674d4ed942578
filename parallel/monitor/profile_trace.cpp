// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/profile_trace.h"

#include <cstdlib>
#include <cxxabi.h>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep {
namespace {

constexpr int kCommunicationRow = 1;
constexpr int kFirstDeviceRow = 2;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string row(int rank, std::uint32_t number, const std::string& name) {
  return fmt::format(
      ",\n"
      R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
      rank,
      number,
      name);
}

std::string host_event(const Profiler& profiler, const Profiler::Event& event, int rank) {
  const ProfiledWork& work = profiler.works()[std::size_t(event.work)];
  const bool communicates = work.stream == ProfileStream::communication;
  const std::string common = fmt::format(R"("name":"{}","cat":"{}","pid":{},"tid":{})",
                                         work.name,
                                         communicates ? "communication" : "compute",
                                         rank,
                                         communicates ? kCommunicationRow : 0);
  const std::string arguments =
      fmt::format(R"("args":{{"layer":{},"flops":{:.0f},"bytes":{:.0f}}})",
                  quoted(work.path),
                  work.cost.flops,
                  work.cost.bytes);
  // Buckets are under way at the same time, which only asynchronous events may be.
  if (communicates)
    return fmt::format(
        ",\n"
        R"({{"ph":"b",{0},"id":{1},"ts":{2:.3f},{4}}},{{"ph":"e",{0},"id":{1},"ts":{3:.3f}}})",
        common,
        event.work,
        event.begin * 1e6,
        event.end * 1e6,
        arguments);
  return fmt::format(
      ",\n"
      R"({{"ph":"X",{},"ts":{:.3f},"dur":{:.3f},{}}})",
      common,
      event.begin * 1e6,
      (event.end - event.begin) * 1e6,
      arguments);
}

std::string stream_row(const DeviceActivities& device, std::uint32_t stream) {
  const std::string name = device.stream_name(stream);
  return name.empty() ? fmt::format("GPU stream {}", stream) : "GPU " + name;
}

std::string device_events(const Profiler& profiler, const DeviceActivities& device, int rank) {
  std::string text;
  std::set<std::uint32_t> streams;
  std::vector<std::string> names;
  for (const std::string& name : device.names()) names.push_back(quoted(kernel_display_name(name)));
  for (const DeviceActivities::Event& event : device.events()) {
    if (streams.insert(event.stream).second)
      text += row(rank, kFirstDeviceRow + event.stream, stream_row(device, event.stream));
    const ProfiledWork none{.name = "", .path = "", .cost = {}};
    const ProfiledWork& work =
        event.work == DeviceActivities::kNoWork ? none : profiler.works()[std::size_t(event.work)];
    text += fmt::format(
        ",\n"
        R"({{"ph":"X","name":{},"cat":"device","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)"
        R"("args":{{"layer":{},"operator":"{}"{}}}}})",
        names[std::size_t(event.name)],
        rank,
        kFirstDeviceRow + event.stream,
        event.begin * 1e6,
        (event.end - event.begin) * 1e6,
        quoted(work.path),
        work.name,
        event.step >= 0 ? fmt::format(R"(,"step":{})", event.step + 1) : "");
  }
  return text;
}

/// Where the last pair of parentheses at the end of `words` opens: the parameters.
std::size_t parameters_of(const std::string& words) {
  int depth = 0;
  for (std::size_t i = words.size(); i-- > 0;) {
    if (words[i] == ')') ++depth;
    if (words[i] == '(' && --depth == 0) return i;
  }
  return std::string::npos;
}

}  // namespace

std::string kernel_display_name(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> words(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || !name.starts_with("_Z")) return name;
  std::string text = words.get();
  if (text.ends_with(')')) text.erase(parameters_of(text));
  constexpr std::string_view kResult = "void ";
  if (text.starts_with(kResult)) text.erase(0, kResult.size());
  return text;
}

// Times in microseconds.
std::string trace_events(const Profiler& profiler, int rank) {
  const DeviceActivities* device = profiler.device();
  std::string text = fmt::format(
      R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0}"}}}})", rank);
  text += row(rank, 0, device != nullptr ? "host" : "compute");
  text += row(rank, kCommunicationRow, "communication");
  for (const Profiler::Event& event : profiler.events()) text += host_event(profiler, event, rank);
  if (device != nullptr) text += device_events(profiler, *device, rank);
  return text;
}

}  // namespace lockstep
