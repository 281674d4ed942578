// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include "tests/doctor/fake_machine.h"

namespace lockstep::doctor {

/// The line on `subject` has this verdict, these words, and a remedy with those.
inline void expect_line(const FakeMachine& machine,
                        const std::string& subject,
                        Verdict verdict,
                        const std::string& words,
                        const std::string& remedy) {
  const Finding found = machine.find(subject);
  EXPECT_EQ(found.verdict, verdict) << found.text;
  EXPECT_THAT(found.text, ::testing::HasSubstr(words));
  EXPECT_THAT(found.remedy, ::testing::HasSubstr(remedy));
}

inline void expect_pass(const FakeMachine& machine, const std::string& subject) {
  const Finding found = machine.find(subject);
  EXPECT_EQ(found.verdict, Verdict::pass) << found.text << " -> " << found.remedy;
}

}  // namespace lockstep::doctor
