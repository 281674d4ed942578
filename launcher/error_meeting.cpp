// SPDX-License-Identifier: Apache-2.0
#include "launcher/error_meeting.h"

#include <chrono>
#include <cstdint>
#include <new>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/base/error.h"
#include "launcher/host_facts.h"
#include "launcher/rank_discovery.h"

namespace lockstep {
namespace {

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

/// In one write, so that ranks do not mix.
void write_to_stderr(const std::string& text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace

ErrorReport describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return {e.what(), e.hint(), int(e.exit_code())};
  } catch (const std::bad_alloc&) {
    return {"out of memory on the host", "use a smaller --micro-batch or fewer ranks a host", 4};
  } catch (const std::exception& e) {
    return {e.what(), {}, 1};
  } catch (...) {
    return {"unknown exception", "please report this", 1};
  }
}

void print_error(const ErrorReport& report, int rank) {
  std::string text = fmt::format("[rank {} {}] error: {}\n", rank, host_name(), report.message);
  if (!report.hint.empty()) text += fmt::format("hint: {}\n", report.hint);
  write_to_stderr(text);
}

void print_warning(const std::string& message, int rank) {
  write_to_stderr(fmt::format("[rank {} {}] warning: {}\n", rank, host_name(), message));
}

int report_alone(const std::exception_ptr& error) {
  const ErrorReport report = describe(error);
  const int rank = launched_rank(process_variables());
  if (rank > 0)
    std::this_thread::sleep_for(std::chrono::duration<double>(ErrorMeeting::kPatienceSeconds));
  print_error(report, rank);
  return report.exit_code;
}

ErrorMeeting::ErrorMeeting(Communicator& world) : world_(world) {
  if (world.size() > 1) side_channel_ = world.split(0, world.rank());
}

ErrorMeeting::~ErrorMeeting() = default;

int ErrorMeeting::report(const std::exception_ptr& error) {
  const ErrorReport report = describe(error);
  const int rank = world_.rank();
  if (side_channel_ == nullptr) {
    print_error(report, rank);
    return report.exit_code;
  }
  constexpr std::int64_t kFloats = sizeof(Card) / sizeof(float);
  std::vector<Card> cards(std::size_t(world_.size()));
  cards[std::size_t(rank)] = card_of(report);
  std::vector<CommBlock> blocks;
  for (int r = 0; r < world_.size(); ++r) blocks.push_back({r * kFloats, kFloats});
  const auto request =
      side_channel_->start_all_gather(reinterpret_cast<float*>(cards.data()), blocks);
  const auto start = std::chrono::steady_clock::now();
  while (!request->test()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() < kPatienceSeconds) continue;
    print_error(report, rank);
    world_.abort(report.exit_code);
  }
  bool said_by_lower_rank = false;
  for (int r = 0; r < rank; ++r)
    said_by_lower_rank |= cards[std::size_t(r)] == cards[std::size_t(rank)];
  if (!said_by_lower_rank) print_error(report, rank);
  return int(cards[0].exit_code);
}

}  // namespace lockstep
