// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/ledger.h"

#include <unistd.h>

namespace lockstep {

std::string_view name_of(LedgerPart part) {
  constexpr std::array<std::string_view, kLedgerParts> kNames{"data",
                                                              "copy",
                                                              "forward",
                                                              "backward",
                                                              "comm_exposed",
                                                              "optimizer",
                                                              "device_wait",
                                                              "logging",
                                                              "checkpoint",
                                                              "other"};
  return kNames[std::size_t(part)];
}

double Ledger::share(LedgerPart part) const { return total > 0 ? (*this)[part] / total : 0; }

void Ledger::close() {
  double& other = (*this)[LedgerPart::other];
  other = 0;
  double named = 0;
  for (const double part : parts) named += part;
  other = total - named;
}

Ledger operator-(const Ledger& later, const Ledger& earlier) {
  Ledger result{.total = later.total - earlier.total};
  for (std::size_t i = 0; i < kLedgerParts; ++i)
    result.parts[i] = later.parts[i] - earlier.parts[i];
  return result;
}

Ledger operator*(const Ledger& ledger, double factor) {
  Ledger result{.total = ledger.total * factor};
  for (std::size_t i = 0; i < kLedgerParts; ++i) result.parts[i] = ledger.parts[i] * factor;
  return result;
}

std::vector<RankLedger> gather_ledgers(Communicator& communicator,
                                       const Ledger& own,
                                       std::optional<double> queued) {
  struct Message {
    char host[64] = {};
    Ledger ledger;
    double queued = -1;  // unknown
  };
  Message message{.ledger = own, .queued = queued.value_or(-1)};
  gethostname(message.host, sizeof message.host - 1);
  std::vector<Message> all(std::size_t(communicator.size()));
  communicator.all_gather(&message, all.data(), sizeof message);
  std::vector<RankLedger> ledgers;
  for (const Message& of_rank : all)
    ledgers.push_back({int(ledgers.size()),
                       of_rank.host,
                       of_rank.ledger,
                       of_rank.queued < 0 ? std::nullopt : std::optional(of_rank.queued)});
  return ledgers;
}

}  // namespace lockstep
