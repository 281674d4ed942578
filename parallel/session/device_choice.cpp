// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/device_choice.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/parameter_names.h"
#include "core/base/xxh64.h"
#include "core/exec/agreement.h"
#include "core/exec/gather_records.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

std::uint64_t hash_of(std::string_view text) { return xxh64(text.data(), text.size()); }

/// A GPU is known by its place in the machine, or where sandboxes hide which machine that is by its
/// own number.
struct GpuKeys {
  std::uint64_t number = 0;  ///< 0: unknown
  std::uint64_t place = 0;
  bool operator==(const GpuKeys&) const = default;
};

GpuKeys keys_of(const DeviceCard& card) {
  const std::string place = std::string(card.machine) + '\0' + card.device;
  return {card.gpu[0] == 0 ? 0 : hash_of(card.gpu), hash_of(place)};
}

/// Ranks that have a key.
class KeyCounts {
 public:
  explicit KeyCounts(const std::vector<GpuKeys>& all) {
    for (const GpuKeys& keys : all) {
      ++places_[keys.place];
      if (keys.number == 0) continue;
      ++numbers_[keys.number];
      ++both_[hash_of({reinterpret_cast<const char*>(&keys), sizeof keys})];
    }
  }

  /// Ranks on the GPU of a rank with these, itself included.
  int on_gpu_of(const GpuKeys& keys) const {
    const int there = places_.at(keys.place);
    if (keys.number == 0) return there;
    return there + numbers_.at(keys.number) -
           both_.at(hash_of({reinterpret_cast<const char*>(&keys), sizeof keys}));
  }

 private:
  std::unordered_map<std::uint64_t, int> places_, numbers_, both_;
};

}  // namespace

DeviceChoice choose_device(const std::string& asked, const DeviceProbe& probe, int local_rank) {
  DeviceChoice choice;
  if (asked == "cpu") return choice;
  if (probe.devices > 0) {
    choice.cuda = true;
    choice.ordinal = local_rank % probe.devices;
    return choice;
  }
  if (asked == "cuda") throw EnvironmentError("`device` cuda: " + probe.reason, probe.hint);
  choice.note = name_parameters("`device` auto: ") + probe.reason;
  return choice;
}

int usable_gpus(const std::string& asked) {
  if (asked == "cpu") return 0;
  const DeviceProbe probe = probe_cuda();
  return choose_device(asked, probe, 0).cuda ? probe.devices : 0;
}

void check_devices(Communicator& ranks, const DeviceCard& own) {
  if (const int failed = first_rank(ranks, own.exit_code != 0); failed >= 0) {
    const DeviceCard card = record_of_rank(ranks, own, failed);
    throw Error(ranks.size() == 1 ? std::string(card.text)
                                  : fmt::format("rank {} on {}: {}", failed, card.host, card.text),
                card.hint,
                ExitCode(card.exit_code));
  }
  const int with = first_rank(ranks, own.cuda != 0), without = first_rank(ranks, own.cuda == 0);
  if (with < 0 || without < 0) return;
  const DeviceCard has = record_of_rank(ranks, own, with),
                   lacks = record_of_rank(ranks, own, without);
  throw EnvironmentError(
      fmt::format(
          "rank {} on {} has a GPU, rank {} on {} has none ({}): replicas on devices of two "
          "kinds would drift apart",
          with,
          has.host,
          without,
          lacks.host,
          lacks.text),
      "mend the rank without a GPU, leave its host out, or use `device` cpu for all");
}

int ranks_before(Communicator& ranks, const DeviceCard& own) {
  const std::uint64_t machine = hash_of(own.machine);
  const std::vector<std::uint64_t> all = gather_records(ranks, machine);
  return int(std::count(all.begin(), all.begin() + ranks.rank(), machine));
}

GpuSharing gpu_sharing(Communicator& ranks, const DeviceCard& own) {
  if (!any_rank(ranks, own.cuda != 0)) return {};
  const std::vector<GpuKeys> all = gather_records(ranks, keys_of(own));
  const KeyCounts counts(all);
  int most = 1, busiest = -1;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const int there = counts.on_gpu_of(all[rank]);
    if (there <= most) continue;
    most = there;
    busiest = int(rank);
  }
  if (busiest < 0) return {};
  const DeviceCard card = record_of_rank(ranks, own, busiest);
  return {
      true,
      fmt::format("{} ranks share GPU {} of {}: they take turns", most, card.device, card.host)};
}

std::string reason_against_nccl(Communicator& ranks, const DeviceCard& own, bool share_a_gpu) {
  if (const int without = first_rank(ranks, own.no_nccl[0] != 0); without >= 0) {
    const DeviceCard card = record_of_rank(ranks, own, without);
    if (all_ranks(ranks, std::string_view(own.no_nccl) == card.no_nccl)) return card.no_nccl;
    return fmt::format("rank {} on {} does without: {}", without, card.host, card.no_nccl);
  }
  if (!share_a_gpu) return {};
  const int strict = first_rank(ranks, own.shared_nccl == 0);
  if (strict < 0) return {};
  if (!any_rank(ranks, own.shared_nccl != 0)) return "it takes no two ranks on one GPU";
  return fmt::format(
      "it takes no two ranks on one GPU, and rank {} on {} does not have LOCKSTEP_NCCL=shared",
      strict,
      record_of_rank(ranks, own, strict).host);
}

}  // namespace lockstep
