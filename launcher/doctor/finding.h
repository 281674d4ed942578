// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::doctor {

/// `none`: not looked at, and why; it counts as neither good nor bad.
enum class Verdict { none, pass, warn, fail };

const char* name_of(Verdict verdict);

/// What one check found.
struct Finding {
  std::string subject;  ///< "driver": a word or two, the same on every rank
  Verdict verdict = Verdict::none;
  std::string text;    ///< what is the case, in words
  std::string remedy;  ///< a command or a setting; where the verdict is warn or fail
  /// What has to be equal on all ranks: a driver's version, a GPU's model. Empty: nothing.
  std::string trait = {};
  /// A rate that is to be alike on all ranks; 0: none.
  double rate = 0;
};

inline Finding pass(std::string subject, std::string text) {
  return {std::move(subject), Verdict::pass, std::move(text), {}};
}
inline Finding none(std::string subject, std::string text) {
  return {std::move(subject), Verdict::none, std::move(text), {}};
}
inline Finding warn(std::string subject, std::string text, std::string remedy) {
  return {std::move(subject), Verdict::warn, std::move(text), std::move(remedy)};
}
inline Finding fail(std::string subject, std::string text, std::string remedy) {
  return {std::move(subject), Verdict::fail, std::move(text), std::move(remedy)};
}

using Findings = std::vector<Finding>;

}  // namespace lockstep::doctor
