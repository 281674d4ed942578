// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/failure_report.h"

#include <fmt/format.h>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr std::string_view kSilent = "no sign of life";
constexpr std::string_view kCutOff = "hears of no other host";

const char* flag_of(RunStage stage) {
  switch (stage) {
    case RunStage::start:
      return "`timeout_start`";
    case RunStage::training:
      return "`timeout`";
    case RunStage::evaluation:
      return "`timeout_evaluation`";
    case RunStage::saving:
    case RunStage::end:
      break;
  }
  return "`timeout_save`";
}

std::string cause_of_stall(const Verdict& verdict, const PositionNote& note) {
  const char* why = note.collective.name != nullptr
                        ? "and this rank has entered the fewest collectives"
                        : "and this rank has not reached the collective that the others wait in";
  if (verdict.has_left) why = "since the others wait for this rank, which has left the job";
  return fmt::format("no rank makes progress for {:.1f} s, {}", verdict.seconds, why);
}

}  // namespace

FaultRecord describe(const Verdict& verdict, const PositionNote& note) {
  FaultRecord record;
  record.rank = verdict.rank;
  set_position(record, note);
  record.exit_code = int(ExitCode::collective_timeout);
  switch (verdict.kind) {
    case Verdict::Kind::died:
      record.has_died = true;
      if (verdict.killed) {
        record.cause = fmt::format(
            "the process was frozen for {:.1f} s, and was killed so that the other ranks continue",
            verdict.seconds);
        record.hint =
            fmt::format("`timeout`, now {:g} s, allows for longer silence", verdict.limit);
        break;
      }
      record.cause = kDiedWithoutAWord;
      record.hint =
          "killed, out of memory, or crashed: look at what the launcher says of this rank, at its "
          "log and at dmesg on its host";
      break;
    case Verdict::Kind::failed:
      record.cause = "the process left the job after an error";
      record.hint = "look for its own message";
      record.exit_code = int(ExitCode::error);
      break;
    case Verdict::Kind::frozen:
      record.cause =
          fmt::format("{} for {:.1f} s: the process is stopped, or its host or the network is gone",
                      kSilent,
                      verdict.seconds);
      if (verdict.is_cut_off)
        record.cause = fmt::format(
            "{} for {:.1f} s: this rank's host has no network any more, or all "
            "hosts that it hears of were lost at once",
            kCutOff,
            verdict.seconds);
      if (verdict.below > 0)
        record.cause += fmt::format("; {} {} through it {} silent as well",
                                    verdict.below,
                                    verdict.below == 1 ? "rank that reports" : "ranks that report",
                                    verdict.below == 1 ? "is" : "are");
      record.hint = fmt::format(
          "look at the process and its host; `timeout`, now {:g} s, allows for longer silence",
          verdict.limit);
      break;
    case Verdict::Kind::stuck:
      record.cause = cause_of_stall(verdict, note);
      record.hint = fmt::format(
          "start again with `timeout` 0 and attach a debugger; where it only is that slow, {}, now "
          "{:g} s, allows for more",
          flag_of(note.stage),
          verdict.limit);
      break;
  }
  record.hint = name_parameters(record.hint);
  return record;
}

bool tells_of_silence(std::string_view text) {
  return text.find(kSilent) != std::string_view::npos ||
         text.find(kCutOff) != std::string_view::npos;
}

}  // namespace lockstep
