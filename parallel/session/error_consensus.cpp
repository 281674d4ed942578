// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/error_consensus.h"

#include <chrono>
#include <cstdint>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/base/exit_deadline.h"
#include "lockstep/error.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/session/error_report.h"
#include "parallel/session/fault_log.h"
#include "parallel/watchdog/watchdog.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kMaxAbort{200}, kMaxGoodbye{500};

/// What a rank tells the others: both values are exact as floats.
struct Card {
  float exit_code = 0;
  float message_hash = 0;
  bool operator==(const Card&) const = default;
};

Card card_of(const ErrorReport& report) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : report.message) hash = (hash ^ std::uint8_t(c)) * 16777619u;
  return {float(report.exit_code), float(hash >> 8)};
}

}  // namespace

ErrorConsensus::ErrorConsensus(Job& job) : job_(job), inside_(JobInternals::of(job)) {
  // Unwatched: where ranks stand is what they did before they came here.
  if (job.size() > 1) side_channel_ = inside_.plain.split(0, job.rank());
}

ErrorConsensus::~ErrorConsensus() = default;

int ErrorConsensus::report(const std::exception_ptr& error) {
  const int rank = job_.rank(), ranks = job_.size();
  const ErrorReport report = describe(error);
  const FaultRecord record = to_record(report, rank, job_.position().read());
  if (side_channel_ == nullptr) {
    inside_.fault_log.write(record, true);
    return report.exit_code;
  }
  if (MpiSession::lost_rank()) end_job(record);  // the side channel is revoked
  constexpr std::int64_t kFloats = sizeof(Card) / sizeof(float);
  std::vector<Card> cards(static_cast<std::size_t>(ranks));
  cards[std::size_t(rank)] = card_of(report);
  std::vector<CommBlock> blocks;
  for (int r = 0; r < ranks; ++r) blocks.push_back({r * kFloats, kFloats});
  try {
    exchange_cards(
        {reinterpret_cast<float*>(cards.data()), cards.size() * kFloats}, blocks, record);
  } catch (const CommError&) {  // another rank has died meanwhile
    end_job(record);
  }
  bool said_by_lower_rank = false;
  for (int r = 0; r < rank; ++r)
    said_by_lower_rank |= cards[std::size_t(r)] == cards[std::size_t(rank)];
  inside_.fault_log.write(record, !said_by_lower_rank);
  const int exit_code = int(cards[0].exit_code);
  // At the first rank that ends with an error mpirun stops answering those that still leave MPI.
  exit_after(kMaxGoodbye, exit_code);
  return exit_code;
}

void ErrorConsensus::exchange_cards(std::span<float> cards,
                                    std::span<const CommBlock> blocks,
                                    const FaultRecord& record) {
  const auto request = side_channel_->start_all_gather(cards.data(), blocks);
  const auto start = std::chrono::steady_clock::now();
  while (!request->test()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() >= kPatienceSeconds) end_job(record);
  }
}

void ErrorConsensus::end_job(const FaultRecord& record) {
  write_to_screen(to_block(record));
  inside_.watchdog.announce(record);
  inside_.fault_log.write(record, false);
  // The others end by themselves; this is for one whose watchdog cannot. mpirun does not answer
  // once another rank has ended, and kills this one two seconds later.
  exit_after(kMaxAbort, record.exit_code);
  side_channel_.release();  // others may never come to free it
  inside_.plain.abort(record.exit_code);
  _exit(record.exit_code);
}

}  // namespace lockstep
