// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_join.h"

#include <algorithm>
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
void require_all(const char* what, const std::vector<NcclCard>& cards) {
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

void require_one_version(const std::vector<NcclCard>& cards) {
  Groups versions;
  for (std::size_t r = 0; r < cards.size(); ++r)
    versions["NCCL " + version_text(cards[r].version)].push_back(int(r));
  if (versions.size() == 1) return;
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

ncclUniqueId share_id(Communicator& host, const Nccl& nccl) {
  struct {
    NcclCard card;
    ncclUniqueId id = {};
  } message;
  if (host.rank() == 0)
    message.card = card_of([&](NcclCard&) {
      const ncclResult_t status = nccl.ncclGetUniqueId(&message.id);
      if (status != ncclSuccess)
        throw EnvironmentError(error_text(nccl, status, nullptr), nccl_network_hint());
    });
  host.broadcast(&message, sizeof message, 0);
  require_all("no address to meet at for the communicator", {message.card});
  return message.id;
}

}  // namespace

const Nccl& open_nccl_together(Communicator& host, const std::string& library) {
  const Nccl* nccl = nullptr;
  const std::vector<NcclCard> cards =
      gather_records(host, card_of([&](NcclCard& card) {
                       nccl = &open_nccl(library);
                       card.version = checked_version(*nccl, nccl_name(library));
                       require_launch_order();
                     }));
  require_all("it cannot be used by all", cards);
  require_one_version(cards);
  return *nccl;
}

void join_together(Communicator& host, const Nccl& nccl, NcclLink& link, double limit_s) {
  const ncclUniqueId id = share_id(host, nccl);
  const std::vector<NcclCard> cards =
      gather_records(host, card_of([&](NcclCard&) {
                       const std::string error = link.join(id, limit_s);
                       if (!error.empty()) throw EnvironmentError(error, nccl_network_hint());
                     }));
  try {
    require_all("the communicator could not be made", cards);
  } catch (...) {
    link.abort();
    throw;
  }
}

}  // namespace lockstep
