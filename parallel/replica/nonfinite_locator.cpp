// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/nonfinite_locator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <tuple>
#include <unistd.h>

#include "core/exec/gather_records.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxShown = 3;

/// A finding as it travels.
struct Card {
  std::int64_t found = 0, round = 0, micro_batch = 0, node = 0, backward = 0, output = 0;
  NonFiniteCount count;
  std::array<char, 64> op{}, host{};
  std::array<char, 256> path{};
};

template <std::size_t kSize>
void fill(std::array<char, kSize>& to, const std::string& text) {
  text.copy(to.data(), kSize - 1);
}

Card card_of(const NonFiniteFinding& finding) {
  const FiniteReport& report = finding.report;
  Card card{.found = report.found,
            .round = finding.round,
            .micro_batch = finding.micro_batch,
            .node = report.node,
            .backward = report.backward,
            .output = report.output,
            .count = report.count};
  fill(card.op, report.op);
  fill(card.path, report.path);
  gethostname(card.host.data(), card.host.size() - 1);
  return card;
}

NonFiniteFinding finding_of(const Card& card, int rank) {
  return {.rank = rank,
          .host = card.host.data(),
          .round = card.round,
          .micro_batch = card.micro_batch,
          .report = {.found = true,
                     .node = int(card.node),
                     .op = card.op.data(),
                     .path = card.path.data(),
                     .backward = card.backward != 0,
                     .output = int(card.output),
                     .count = card.count}};
}

}  // namespace

void NonFiniteLocator::begin() { *this = {}; }

void NonFiniteLocator::look_at(const data::LoadedBatch& loaded, const data::SampleSpec& samples) {
  const auto look = [&](const char* name, const std::byte* bytes, const TensorType& type) {
    FiniteReport& report = own_.report;
    if (report.found || !is_float(type.dtype)) return;
    const NonFiniteCount count =
        count_non_finite(bytes, {Shape{loaded.samples * type.elems()}, type.dtype});
    if (count.non_finite > 0) report = {.found = true, .op = name, .count = count};
  };
  look("data", loaded.input, samples.input);
  look("target", loaded.target, samples.target);
}

void NonFiniteLocator::end_round(std::int64_t micro_batch) {
  if (own_.report.found && !placed_) {
    placed_ = true;
    own_.round = rounds_;
    own_.micro_batch = micro_batch;
  }
  ++rounds_;
}

std::vector<NonFiniteFinding> NonFiniteLocator::gather(Communicator& communicator,
                                                       bool grouped) const {
  const std::vector<Card> cards = gather_records(communicator, card_of(own_));
  std::vector<NonFiniteFinding> findings;
  for (std::size_t rank = 0; rank < cards.size(); ++rank)
    if (cards[rank].found) findings.push_back(finding_of(cards[rank], int(rank)));
  const auto key = [&](const NonFiniteFinding& f) {
    const std::int64_t micro_batch =
        f.micro_batch < 0 ? std::numeric_limits<std::int64_t>::max() : f.micro_batch;
    return grouped ? std::tuple(f.round, std::int64_t(f.report.node), micro_batch, f.rank)
                   : std::tuple(micro_batch, std::int64_t(f.report.node), f.round, f.rank);
  };
  std::ranges::sort(findings, {}, key);
  return findings;
}

std::string to_text(const NonFiniteFinding& finding, std::int64_t micro_batches) {
  const FiniteReport& report = finding.report;
  const std::string where =
      finding.micro_batch < 0
          ? "in a round without samples"
          : fmt::format("in micro-batch {} of {}", finding.micro_batch + 1, micro_batches);
  const std::string what = report.node < 0 ? report.op
                                           : fmt::format("{} {} ({}), output {}",
                                                         report.op,
                                                         report.path,
                                                         report.backward ? "backward" : "forward",
                                                         report.output);
  return fmt::format("rank {} ({}) {}: {}, {} of {} elements, the first ({}) is {}",
                     finding.rank,
                     finding.host,
                     where,
                     what,
                     report.count.non_finite,
                     report.count.elems,
                     report.count.first,
                     report.count.value);
}

std::string to_text(const std::vector<NonFiniteFinding>& findings, std::int64_t micro_batches) {
  std::string text;
  const std::size_t shown = std::min(findings.size(), kMaxShown);
  for (std::size_t i = 0; i < shown; ++i)
    text += (i == 0 ? "first found on " : "; also on ") + to_text(findings[i], micro_batches);
  if (findings.size() > shown) text += fmt::format(", and on {} more", findings.size() - shown);
  return text;
}

}  // namespace lockstep
