// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_join.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "core/base/check.h"
#include "core/base/fixed_text.h"
#include "core/exec/gather_records.h"

namespace lockstep {
namespace {

/// What every rank tells the others of what it tried.
struct NcclCard {
  int version = 0;
  char host[64] = {};
  char error[768] = {};  ///< empty: it went well
  char hint[384] = {};
};

NcclCard own_card() {
  NcclCard card;
  gethostname(card.host, sizeof card.host - 1);
  return card;
}

/// Runs `attempt` and takes down what it throws.
NcclCard card_of(const std::function<void(NcclCard&)>& attempt) {
  NcclCard card = own_card();
  try {
    attempt(card);
  } catch (const Error& error) {
    set_text(card.error, error.what());
    set_text(card.hint, error.hint());
  } catch (const std::exception& error) {  // the others wait for this card
    set_text(card.error, error.what());
  }
  return card;
}

/// Ranks, by what is the same among them.
using Groups = std::map<std::string, std::vector<int>>;

/// "rank 3 (node2)", "ranks 0 (node1), 1 (node1) and 6 more"
std::string name_ranks(const std::vector<int>& ranks, const std::vector<NcclCard>& cards) {
  constexpr std::size_t kNamed = 8;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i)
    text +=
        fmt::format("{}{} ({})", i == 0 ? " " : ", ", ranks[i], cards[std::size_t(ranks[i])].host);
  if (ranks.size() > kNamed) text += fmt::format(" and {} more", ranks.size() - kNamed);
  return text;
}

std::string list(const Groups& groups, const std::vector<NcclCard>& cards) {
  std::string text;
  for (const auto& [what, ranks] : groups)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name_ranks(ranks, cards), what);
  return text;
}

/// Throws where a rank took an error down.
void require_no_error(const char* what, const std::vector<NcclCard>& cards) {
  Groups failed;
  std::string_view hint;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    if (cards[r].error[0] == 0) continue;
    failed[cards[r].error].push_back(int(r));
    if (hint.empty()) hint = cards[r].hint;
  }
  if (failed.empty()) return;
  throw EnvironmentError(fmt::format("NCCL: {}: {}", what, list(failed, cards)), std::string(hint));
}

/// The same of all ranks of `host`, whose cards are gathered where one has an error alone: they
/// are large.
void require_all(Communicator& host, const char* what, const NcclCard& own) {
  std::uint64_t errors = own.error[0] == 0 ? 0 : 1;
  host.all_reduce_max({&errors, 1});
  if (errors > 0) require_no_error(what, gather_records(host, own));
}

void require_one_version(Communicator& host, const NcclCard& own) {
  std::uint64_t newest_and_oldest[] = {std::uint64_t(own.version), ~std::uint64_t(own.version)};
  host.all_reduce_max(newest_and_oldest);
  if (newest_and_oldest[0] == ~newest_and_oldest[1]) return;
  const std::vector<NcclCard> cards = gather_records(host, own);
  Groups versions;
  for (std::size_t r = 0; r < cards.size(); ++r)
    versions["NCCL " + version_text(cards[r].version)].push_back(int(r));
  throw EnvironmentError(
      "NCCL: all ranks need the same version, but there are " + list(versions, cards),
      "install the same NCCL on every host, and have LD_LIBRARY_PATH lead to it on each");
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
  struct {
    NcclCard card;
    ncclUniqueId id = {};
  } message;
  if (host.rank() == root)
    message.card = card_of([&](NcclCard&) {
      const ncclResult_t status = nccl.ncclGetUniqueId(&message.id);
      if (status != ncclSuccess)
        throw EnvironmentError(error_text(nccl, status, nullptr), nccl_network_hint());
    });
  host.broadcast(&message, sizeof message, root);
  if (message.card.error[0] == 0) return message.id;
  std::vector<NcclCard> cards(std::size_t(host.size()));
  cards[std::size_t(root)] = message.card;
  require_no_error("no address to meet at for the communicator", cards);
  return message.id;
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
  require_one_version(host, own);
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
