// SPDX-License-Identifier: Apache-2.0
#include "launcher/profile_table.h"

#include <fmt/format.h>

namespace lockstep {

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
    std::string text = fmt::format("{:<34} {:>8.1f} {:>10.4f} {:>6.1f}%",
                                   line.name,
                                   line.runs_a_step,
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

void ProfilePrinter::on_profile(const ProfileRecord& record) {
  const std::string peaks = fmt::format(
      "profile of rank 0, runs and ms a step; peaks measured now: {:.1f} GFLOP/s fp32, {:.1f} "
      "bf16, "
      "{:.1f} GB/s",
      record.peaks.fp32_flops * 1e-9,
      record.peaks.bf16_flops * 1e-9,
      record.peaks.bytes * 1e-9);
  std::string text = peaks + "\n";
  console_.line(peaks);
  for (const std::string& line : profile_table(record.lines, steps_)) {
    console_.line(line);
    text += line + "\n";
  }
  text += "\n";
  for (const std::string& line : profile_table(record.nodes, steps_)) text += line + "\n";
  folder_.write_file("profile.txt", text);
  folder_.write_file("trace.json", record.trace);
}

}  // namespace lockstep
