// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/profile_table.h"

#include <fmt/format.h>

#include "core/base/text/number_format.h"

namespace lockstep {
namespace {

double share_of(const std::vector<ProfileLine>& lines) {
  double share = 0;
  for (const ProfileLine& line : lines) share += line.share;
  return share;
}

}  // namespace

std::vector<std::string> profile_table(const std::vector<ProfileLine>& lines, std::int64_t steps) {
  std::vector<std::string> table;
  table.push_back(fmt::format("{:<34} {:>8} {:>10} {:>7} {:>9} {:>8} {:>9}",
                              "operator",
                              "runs",
                              "ms",
                              "share",
                              "GFLOP/s",
                              "GB/s",
                              "roofline"));
  for (const ProfileLine& line : lines) {
    const std::string runs = line.runs_a_step > 0 ? fmt::format("{:.1f}", line.runs_a_step) : "";
    std::string text = fmt::format("{:<34} {:>8} {:>10.4f} {:>6.1f}%",
                                   line.name,
                                   runs,
                                   line.seconds / double(steps) * 1e3,
                                   line.share * 100);
    if (line.bytes > 0)
      text += fmt::format(" {:>9.1f} {:>8.1f} {:>8.0f}%",
                          line.flops / line.seconds * 1e-9,
                          line.bytes / line.seconds * 1e-9,
                          line.roofline * 100);
    table.push_back(text);
  }
  return table;
}

std::vector<std::string> profile_heading(const ProfileRecord& record) {
  std::vector<std::string> lines{
      fmt::format("profile of rank 0, runs and ms a step{}; peaks measured now: {:.1f} GFLOP/s "
                  "fp32, {:.1f} bf16, {:.1f} GB/s",
                  record.by_device ? " of the GPU's own time" : "",
                  record.peaks.fp32_flops * 1e-9,
                  record.peaks.bf16_flops * 1e-9,
                  record.peaks.bytes * 1e-9)};
  if (record.by_device && share_of(record.lines) > 1.005)
    lines.push_back(
        fmt::format("shares add up to {:.0f}% of the run, as work of several streams overlapped",
                    share_of(record.lines) * 100));
  if (record.lost > 0)
    lines.push_back(fmt::format(
        "{} of the GPU's records were lost, as they were not read in time: times are too "
        "low by what they held, and idle too high",
        format_count(double(record.lost))));
  if (record.dropped > 0)
    lines.push_back(
        fmt::format("trace.json lacks {} events of rank 0, which did not fit into its buffer",
                    format_count(double(record.dropped))));
  return lines;
}

void ProfilePrinter::on_profile_without_device(const std::string& why, const std::string& hint) {
  without_device_ = fmt::format(
      "profile    of the host's times, which wait for each operator: {}; {}", why, hint);
  console_.line(without_device_);
}

void ProfilePrinter::on_profile(const ProfileRecord& record) {
  std::string text = without_device_.empty() ? "" : without_device_ + "\n";
  const auto print = [&](const std::string& line) {
    console_.line(line);
    text += line + "\n";
  };
  for (const std::string& line : profile_heading(record)) print(line);
  for (const std::string& line : profile_table(record.lines, steps_)) print(line);
  text += "\n";
  for (const std::string& line : profile_table(record.nodes, steps_)) text += line + "\n";
  folder_.write_file("profile.txt", text);
  folder_.write_file("trace.json", record.trace);
  folder_.write_file("kernel_times.json", record.kernel_times);
}

}  // namespace lockstep
