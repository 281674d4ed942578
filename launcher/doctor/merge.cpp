// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/rank_list.h"
#include "launcher/doctor/report.h"

namespace lockstep::doctor {
namespace {

constexpr double kSlowShare = 0.8;

/// A finding and whose it is.
struct Told {
  const Finding* finding;
  const RankReport* by;
};

std::string who(const RankReport& report) {
  return fmt::format("rank {} on {}", report.rank, report.host);
}

std::string list_who(const std::vector<const RankReport*>& reports) {
  if (reports.size() == 1) return who(*reports[0]);
  std::set<std::string> hosts;
  std::vector<int> ranks;
  for (const RankReport* report : reports) {
    ranks.push_back(report->rank);
    hosts.insert(report->host);
  }
  return fmt::format(
      "{} on {}", format_ranks(ranks), hosts.size() == 1 ? *hosts.begin() : "several hosts");
}

std::string without_host(const RankReport& report) {
  return fmt::format(
      "check {0} first; to continue without it, omit it from mpirun's --host, or "
      "sbatch --exclude={0}",
      report.host);
}

/// What most ranks have, which may be none at all; nullopt where no trait is of more ranks than
/// every other.
std::optional<std::string> common_trait(const std::vector<Told>& told) {
  std::map<std::string, int> counts;
  for (const Told& one : told) ++counts[one.finding->trait];
  std::string best;
  int most = 0, times = 0;
  for (const auto& [trait, count] : counts) {
    if (count > most) times = 0;
    if (count >= most) {
      most = count;
      best = trait;
      ++times;
    }
  }
  if (times != 1) return std::nullopt;
  return best;
}

void note_traits(const std::vector<Told>& told,
                 Finding& line,
                 std::vector<const RankReport*>& odd) {
  const bool alike = std::ranges::all_of(
      told, [&](const Told& one) { return one.finding->trait == told[0].finding->trait; });
  if (alike) return;
  const std::optional<std::string> common = common_trait(told);
  const Told* first = nullptr;
  for (const Told& one : told) {
    if (common && one.finding->trait == *common) continue;
    if (first == nullptr) first = &one;
    odd.push_back(one.by);
  }
  const std::string& trait = first->finding->trait;
  const Told& second =
      *std::ranges::find_if(told, [&](const Told& one) { return one.finding->trait != trait; });
  const std::string& other = second.finding->trait;
  line.text = fmt::format("{} has {}, {} {}; {}",
                          who(*first->by),
                          trait.empty() ? "none" : trait,
                          common ? "most have" : who(*second.by) + " has",
                          common && common->empty() ? "none"
                          : common                  ? *common
                          : other.empty()           ? "none"
                                                    : other,
                          line.text);
  if (line.verdict < Verdict::warn) {
    line.verdict = Verdict::warn;
    line.remedy = without_host(*first->by);
  }
}

void note_rates(const std::vector<Told>& told, Finding& line, std::vector<const RankReport*>& odd) {
  std::vector<double> rates;
  rates.reserve(told.size());
  for (const Told& one : told) rates.push_back(one.finding->rate);
  std::ranges::sort(rates);
  // Of two, the upper one: a slow rank is not to be its own measure.
  const double median = rates[rates.size() / 2];
  const auto slowest =
      std::ranges::min_element(told, {}, [](const Told& one) { return one.finding->rate; });
  if (median <= 0 || slowest->finding->rate >= kSlowShare * median) return;
  for (const Told& one : told)
    if (one.finding->rate < kSlowShare * median) odd.push_back(one.by);
  line.text = fmt::format("{} reaches {:.0f}% of the median rank's matmul throughput; {}",
                          who(*slowest->by),
                          100 * slowest->finding->rate / median,
                          line.text);
  if (line.verdict < Verdict::warn) {
    line.verdict = Verdict::warn;
    line.remedy = without_host(*slowest->by);
  }
}

Finding merge_subject(const std::vector<Told>& told, std::vector<const RankReport*>& odd) {
  const Told* worst = &told[0];
  for (const Told& one : told)
    if (one.finding->verdict > worst->finding->verdict) worst = &one;
  Finding line = *worst->finding;
  std::vector<const RankReport*> same;
  for (const Told& one : told)
    if (one.finding->verdict == line.verdict) same.push_back(one.by);
  if (line.verdict >= Verdict::warn && same.size() < told.size()) {
    line.text = fmt::format("{}: {}", list_who(same), line.text);
    odd.insert(odd.end(), same.begin(), same.end());
  }
  if (told.size() > 1) {
    note_traits(told, line, odd);
    note_rates(told, line, odd);
  }
  return line;
}

}  // namespace

Report merge(std::vector<RankReport> reports) {
  Report result;
  result.ranks = std::move(reports);
  std::vector<std::string> subjects;
  for (const RankReport& report : result.ranks)
    for (const Finding& finding : report.findings)
      if (std::ranges::find(subjects, finding.subject) == subjects.end())
        subjects.push_back(finding.subject);
  std::map<int, std::string> odd_by_rank;
  for (const std::string& subject : subjects) {
    std::vector<Told> told;
    for (const RankReport& report : result.ranks)
      for (const Finding& finding : report.findings)
        if (finding.subject == subject) told.push_back({&finding, &report});
    std::vector<const RankReport*> odd;
    result.lines.push_back(merge_subject(told, odd));
    for (const RankReport* report : std::set<const RankReport*>(odd.begin(), odd.end())) {
      std::string& text = odd_by_rank[report->rank];
      text += (text.empty() ? who(*report) + ": " : ", ") + subject;
    }
  }
  for (const auto& [rank, text] : odd_by_rank) result.odd.push_back(text);
  return result;
}

ExitCode exit_code(const Report& report) {
  const bool failed = std::ranges::any_of(
      report.lines, [](const Finding& line) { return line.verdict == Verdict::fail; });
  return failed ? ExitCode::environment : ExitCode::done;
}

}  // namespace lockstep::doctor
