// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_join.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "core/base/rank_list.h"
#include "core/exec/agreement.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"
#include "parallel/comm/collective_strings.h"

namespace lockstep {
namespace {

/// What a rank knows of what it tried.
struct NcclCard {
  int version = 0;
  std::string error, hint;  ///< empty: it went well
};

/// Runs `attempt` and takes down what it throws.
NcclCard card_of(const std::function<void(NcclCard&)>& attempt) {
  NcclCard card;
  try {
    attempt(card);
  } catch (const Error& error) {
    card.error = error.what();
    card.hint = error.hint();
  } catch (const std::exception& error) {  // the others wait for this card
    card.error = error.what();
  }
  return card;
}

/// "rank 3 (node2): no libnccl.so.2; ranks 0 (node1), 1 (node1): another error", of those whose
/// text is not empty, by text. Collective.
std::string list(Communicator& host, const std::string& text) {
  const std::vector<std::string> hosts = gather_common_strings(host, host_name());
  std::vector<RanksWithText> groups = gather_distinct_strings(host, text);
  std::ranges::sort(groups, {}, &RanksWithText::text);
  std::string all;
  for (const RanksWithText& group : groups)
    if (!group.text.empty())
      all +=
          fmt::format("{}{}: {}",
                      all.empty() ? "" : "; ",
                      format_ranks(group.ranks, [&](int rank) { return hosts[std::size_t(rank)]; }),
                      group.text);
  return all;
}

/// Throws where a rank took an error down. Collective.
void require_all(Communicator& host, const char* what, const NcclCard& own) {
  const int first = first_rank(host, !own.error.empty());
  if (first < 0) return;
  const std::string all = list(host, own.error), hint = broadcast_string(host, own.hint, first);
  throw EnvironmentError(fmt::format("NCCL: {}: {}", what, all), hint);
}

/// Collective.
void require_one_version(Communicator& host, int version) {
  if (all_ranks_equal(host, {std::uint64_t(version)})) return;
  throw EnvironmentError("NCCL: all ranks need the same version, but there are " +
                             list(host, "NCCL " + version_text(version)),
                         "install the same NCCL on every host, and have LD_LIBRARY_PATH lead to it "
                         "on each");
}

/// See Note [Order of communicators] in nccl_communicator.h.
void require_launch_order() {
  const char* const order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  LOCKSTEP_CHECK(order != nullptr && std::string_view(order) == "1",
                 EnvironmentError,
                 "NCCL_LAUNCH_ORDER_IMPLICIT is {}, and has to be 1: set_nccl_variables() was not "
                 "called before",
                 order == nullptr ? "not set" : fmt::format("'{}'", order));
}

/// The address of `root`, where ranks of `host` meet, from it to all.
ncclUniqueId share_id(Communicator& host, const Nccl& nccl, int root) {
  ncclUniqueId id = {};
  NcclCard own;
  if (host.rank() == root)
    own = card_of([&](NcclCard&) {
      const ncclResult_t status = nccl.ncclGetUniqueId(&id);
      if (status != ncclSuccess)
        throw EnvironmentError(error_text(nccl, status, nullptr), nccl_network_hint());
    });
  require_all(host, "no address to meet at for the communicator", own);
  return record_of_rank(host, id, root);
}

/// One in join.ranks_per_root ranks is a root, at equal distances.
std::vector<ncclUniqueId> share_ids(Communicator& host, const Nccl& nccl, const NcclJoin& join) {
  const int ranks = host.size();
  const int roots = (ranks + join.ranks_per_root - 1) / join.ranks_per_root;
  std::vector<ncclUniqueId> ids;
  for (int i = 0; i < roots; ++i)
    ids.push_back(share_id(host, nccl, int(std::int64_t(i) * ranks / roots)));
  return ids;
}

/// Throws EnvironmentError, the same on all ranks, where `attempt` returns an error on some.
void require_joined(Communicator& host, const std::function<std::string()>& attempt) {
  require_all(host, "the communicator could not be made", card_of([&](NcclCard&) {
                const std::string error = attempt();
                if (!error.empty()) throw EnvironmentError(error, nccl_network_hint());
              }));
}

}  // namespace

const Nccl& open_nccl_together(Communicator& host, const std::string& library) {
  const Nccl* nccl = nullptr;
  const NcclCard own = card_of([&](NcclCard& card) {
    nccl = &open_nccl(library);
    card.version = checked_version(*nccl, nccl_name(library));
    require_launch_order();
  });
  require_all(host, "it cannot be used by all", own);
  require_one_version(host, own.version);
  return *nccl;
}

void join_together(Communicator& host, const Nccl& nccl, NcclLink& link, const NcclJoin& join) {
  std::vector<ncclUniqueId> ids = share_ids(host, nccl, join);
  try {
    require_joined(host, [&] { return link.join(ids, join.limit_s); });
  } catch (...) {
    link.abort();
    throw;
  }
}

void split_together(
    Communicator& host, NcclLink& whole, NcclLink* part, int color, const NcclJoin& join) {
  try {
    require_joined(host, [&] { return whole.split(part, color, join.limit_s); });
  } catch (...) {
    if (part != nullptr) part->abort();
    whole.abort();
    throw;
  }
}

}  // namespace lockstep
