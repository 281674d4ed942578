// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/storm_outcomes.h"

#include <fmt/format.h>
#include <utility>

namespace lockstep {
namespace {

using simulation::Detection;
using simulation::PlantedFault;

const char* word_of(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::died:
      return "died";
    case Verdict::Kind::failed:
      return "failed";
    case Verdict::Kind::frozen:
      return "frozen";
    case Verdict::Kind::stuck:
      return "stuck";
  }
  return "";
}

void put_verdict(const Detection& found, FaultOutcome& outcome) {
  outcome.named = found.verdict->rank;
  outcome.verdict = word_of(found.verdict->kind);
  outcome.others_wrong = found.others_wrong;
  outcome.is_right = found.named_fault && found.others_wrong == 0;
  if (found.named_fault) outcome.detected_s = found.detected_at - outcome.fault.at;
}

}  // namespace

void note_detection(const Detection& found, std::span<FaultOutcome> outcomes) {
  const std::size_t named = found.named_fault.value_or(0);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    FaultOutcome& outcome = outcomes[i];
    if (!found.verdict) {
      outcome.note =
          found.over_at == PlantedFault::kForEver ? "no rank notices" : "over before a limit";
      if (found.launcher_died) outcome.note = "no rank notices";
    } else if (i == named) {
      put_verdict(found, outcome);
    } else if (outcome.fault.at > found.detected_at) {
      outcome.note = "after the verdict";
    } else {
      outcome.note = "while another was being found";
    }
    if (found.launcher_died && simulation::ends_launcher(outcome.fault))
      outcome.note +=
          fmt::format("{}the scheduler starts the job again", outcome.note.empty() ? "" : "; ");
  }
}

StorageOutcomes::StorageOutcomes(std::span<const PlantedFault> faults) : notes_(faults.size()) {
  for (const PlantedFault& fault : faults) outcomes_.push_back({.fault = fault});
}

void StorageOutcomes::note(const StormStorage::Transfer& transfer,
                           const std::string& what,
                           const char* met_in) {
  const auto add = [&](std::size_t i, const std::string& text) {
    FaultOutcome& outcome = outcomes_[i];
    outcome.met_in = met_in;
    if (++notes_[i] <= kNotes) outcome.note += (outcome.note.empty() ? "" : "; ") + text;
  };
  if (transfer.stalled_by)
    add(*transfer.stalled_by,
        transfer.end == PlantedFault::kForEver
            ? what + " never ends"
            : fmt::format("{} takes {:.0f} s more", what, transfer.stalled_s));
  if (transfer.failed_by) add(*transfer.failed_by, what + " fails");
}

std::vector<FaultOutcome> StorageOutcomes::take() {
  for (std::size_t i = 0; i < outcomes_.size(); ++i) {
    std::string& note = outcomes_[i].note;
    if (note.empty()) note = "nothing was written or read";
    if (notes_[i] > kNotes) note += fmt::format("; and {} more", notes_[i] - kNotes);
  }
  return std::move(outcomes_);
}

}  // namespace lockstep
