// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/algorithm_cache.h"

#include <algorithm>
#include <fmt/ranges.h>

#include "core/base/check.h"

namespace lockstep::cuda {
namespace {

constexpr char kFieldEnd = '\t', kLineEnd = '\n';

/// What stands before `end`, which is taken off `text` with it.
std::string take_until(std::string_view& text, char end) {
  const std::size_t length = text.find(end);
  LOCKSTEP_ASSERT(length != std::string_view::npos);
  std::string field(text.substr(0, length));
  text.remove_prefix(length + 1);
  return field;
}

std::vector<std::string> lines_by_reason(const std::map<std::string, std::string>& reasons) {
  constexpr std::size_t kMaxNamed = 4;
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [what, why] : reasons) by_reason[why].push_back(what);
  std::vector<std::string> lines;
  for (auto& [why, operators] : by_reason) {
    const std::size_t all = operators.size();
    operators.resize(std::min(all, kMaxNamed));
    lines.push_back(fmt::format("{}{}: {}",
                                fmt::join(operators, ", "),
                                all > kMaxNamed ? fmt::format(" and {} more", all - kMaxNamed) : "",
                                why));
  }
  return lines;
}

std::string on_one_line(std::string text) {
  for (char& c : text)
    if (c == kFieldEnd || c == kLineEnd) c = ' ';
  return text;
}

}  // namespace

const AlgorithmChoice& AlgorithmCache::choice(const std::string& key,
                                              const std::function<AlgorithmChoice()>& choose) {
  if (const AlgorithmChoice* known = find(key)) return *known;
  AlgorithmChoice made = choose();
  made.why_none = on_one_line(std::move(made.why_none));
  return choices_.emplace(key, std::move(made)).first->second;
}

const AlgorithmChoice* AlgorithmCache::find(const std::string& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? nullptr : &found->second;
}

void AlgorithmCache::note_slow(const std::string& what, const std::string& why) {
  slow_.emplace(what, why);
}

std::vector<std::string> AlgorithmCache::notices() const { return lines_by_reason(slow_); }

void AlgorithmCache::note_rejected(const std::string& what, const std::string& why) {
  rejected_.emplace(what, on_one_line(why));
}

void AlgorithmCache::note_timed(double seconds) {
  ++timed_;
  timing_s_ += seconds;
}

std::string AlgorithmCache::timing_note() const {
  std::vector<std::string> lines = lines_by_reason(rejected_);
  if (timed_ > 0)
    lines.insert(
        lines.begin(),
        fmt::format("{} operators timed in {:.1f} s; {} run another algorithm than the heuristic's",
                    timed_,
                    timing_s_,
                    other_choices_));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

AlgorithmTimer::~AlgorithmTimer() {
  cache_.note_timed(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
}

std::string AlgorithmCache::to_text() const {
  std::string text;
  for (const auto& [key, choice] : choices_)
    text += key + kFieldEnd + choice.text + kFieldEnd + choice.why_none + kLineEnd;
  return text;
}

void AlgorithmCache::replace(std::string_view text) {
  std::map<std::string, AlgorithmChoice> read;
  while (!text.empty()) {
    const std::string key = take_until(text, kFieldEnd);
    const std::string algorithm = take_until(text, kFieldEnd);
    read[key] = {algorithm, take_until(text, kLineEnd)};
  }
  choices_ = std::move(read);
  built_.clear();
}

}  // namespace lockstep::cuda
