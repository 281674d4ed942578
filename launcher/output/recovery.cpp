// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/recovery.h"

#include <algorithm>
#include <utility>

#include "launcher/output/run_folder.h"

namespace lockstep {

Recovery::Recovery(RestartFacts facts, RunFolder& folder, Console& console)
    : folder_(folder), console_(console) {
  record_.facts = std::move(facts);
}

void Recovery::on_start(const ResumeRecord* resumed) {
  record_.step = resumed != nullptr ? resumed->step : 0;
  ready_ = unix_seconds();
}

/// Clocks may have been set meanwhile.
void Recovery::on_first_step() {
  const auto between = [](double a, double b) { return std::max(0.0, b - a); };
  const RestartFacts& facts = record_.facts;
  record_.end_s = between(facts.reported, facts.ended);
  record_.pause_s = between(facts.ended, facts.started);
  record_.start_s = between(facts.started, ready_);
  record_.first_step_s = between(ready_, unix_seconds());
  if (facts.step > 0) record_.lost_steps = std::max<std::int64_t>(0, facts.step - 1 - record_.step);
  folder_.add_fault(record_);
  console_.line(to_words(record_));
}

}  // namespace lockstep
