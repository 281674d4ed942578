// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/report.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "launcher/processes/host_facts.h"

namespace lockstep::doctor {
namespace {

constexpr std::size_t kWidth = 100, kSubjectWidth = 16, kIndent = 2 + 6 + kSubjectWidth;
constexpr std::size_t kMaxOdd = 4;

/// Broken between words so that lines after `indent` columns stay within the width; the first one
/// is indented already.
std::string wrap(const std::string& text, std::size_t indent) {
  std::istringstream words(text);
  std::string result;
  std::size_t column = indent;
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result + "\n";
}

const char* mark(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::warn:
      return "warn";
    case Verdict::fail:
      return "FAIL";
    default:
      return "-";
  }
}

std::size_t hosts_of(const Report& report) {
  std::set<std::string> hosts;
  for (const RankReport& rank : report.ranks) hosts.insert(rank.host);
  return hosts.size();
}

long count(const Report& report, Verdict verdict) {
  return std::ranges::count(report.lines, verdict, &Finding::verdict);
}

std::string ranks_text(const Report& report) {
  if (report.ranks.size() < 2) return {};
  if (report.odd.empty()) return fmt::format("all {} ranks are alike\n", report.ranks.size());
  std::string text;
  for (std::size_t i = 0; i < std::min(report.odd.size(), kMaxOdd); ++i)
    text += wrap("outlier: " + report.odd[i], 0);
  if (report.odd.size() > kMaxOdd)
    text += fmt::format("and {} more ranks\n", report.odd.size() - kMaxOdd);
  return text;
}

nlohmann::ordered_json to_json(const Finding& finding) {
  nlohmann::ordered_json json{{"subject", finding.subject},
                              {"verdict", name_of(finding.verdict)},
                              {"text", finding.text},
                              {"remedy", finding.remedy}};
  if (!finding.trait.empty()) json["trait"] = finding.trait;
  if (finding.rate > 0) json["rate"] = finding.rate;
  return json;
}

nlohmann::ordered_json to_json(const RankReport& report) {
  nlohmann::ordered_json json{{"rank", report.rank}, {"host", report.host}};
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : report.findings) json["findings"].push_back(to_json(finding));
  return json;
}

/// Texts of the system may hold any bytes.
std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::warn:
      return "warn";
    case Verdict::fail:
      return "fail";
    default:
      return "none";
  }
}

std::string to_text(const Report& report) {
  const std::size_t ranks = report.ranks.size(), hosts = hosts_of(report);
  std::string text = fmt::format("lockstep {} on {}", lockstep_version(), report.ranks[0].host);
  if (ranks > 1) text += fmt::format(": {} ranks on {} host{}", ranks, hosts, hosts > 1 ? "s" : "");
  text += "\n";
  for (const Finding& line : report.lines) {
    text += fmt::format("  {:<6}{:<{}}", mark(line.verdict), line.subject, kSubjectWidth);
    text += wrap(line.text, kIndent);
    if (line.remedy.empty() || line.verdict < Verdict::warn) continue;
    text += std::string(kIndent, ' ') + "fix: " + wrap(line.remedy, kIndent + 5);
  }
  text += ranks_text(report);
  text += fmt::format("{} pass, {} warn, {} fail; - was not looked at\n",
                      count(report, Verdict::pass),
                      count(report, Verdict::warn),
                      count(report, Verdict::fail));
  return text;
}

nlohmann::ordered_json to_json(const Report& report) {
  nlohmann::ordered_json json{{"version", lockstep_version()},
                              {"host", report.ranks[0].host},
                              {"exit_code", int(exit_code(report))},
                              {"pass", count(report, Verdict::pass)},
                              {"warn", count(report, Verdict::warn)},
                              {"fail", count(report, Verdict::fail)}};
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& line : report.lines) json["findings"].push_back(to_json(line));
  json["odd"] = report.odd;
  json["ranks"] = nlohmann::ordered_json::array();
  for (const RankReport& rank : report.ranks) json["ranks"].push_back(to_json(rank));
  return json;
}

std::string to_message(const RankReport& report) { return dump(to_json(report)); }

RankReport from_message(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  LOCKSTEP_ASSERT(json.is_object());
  RankReport report;
  report.rank = json.value("rank", 0);
  report.host = json.value("host", "");
  for (const nlohmann::json& one : json.value("findings", nlohmann::json::array())) {
    Finding finding;
    finding.subject = one.value("subject", "");
    const std::string verdict = one.value("verdict", "none");
    for (const Verdict known : {Verdict::pass, Verdict::warn, Verdict::fail})
      if (verdict == name_of(known)) finding.verdict = known;
    finding.text = one.value("text", "");
    finding.remedy = one.value("remedy", "");
    finding.trait = one.value("trait", "");
    finding.rate = one.value("rate", 0.0);
    report.findings.push_back(std::move(finding));
  }
  return report;
}

}  // namespace lockstep::doctor
