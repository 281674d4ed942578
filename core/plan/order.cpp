// SPDX-License-Identifier: Apache-2.0
#include "core/plan/order.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "core/graph/rewrite.h"
#include "core/plan/memory_use.h"
#include "core/plan/window_search.h"

namespace lockstep {
namespace {

/// Sets of nodes looked at in one window, and for one order: some milliseconds.
constexpr int kWindowBudget = 5'000;
constexpr int kOrderBudget = 16'000;
constexpr double kMinSavingOfSchedule = 0.1;

struct Ordered {
  std::vector<NodeId> nodes;
  std::size_t peak = 0;
};

class MemoryOrder {
 public:
  MemoryOrder(const Graph& graph, const std::vector<std::size_t>& workspace_bytes)
      : use_(graph, workspace_bytes), nodes_(graph.nodes().size()) {
    const auto backward = [](const Node& node) { return node.phase == NodePhase::backward; };
    first_backward_ =
        std::size_t(std::ranges::find_if(graph.nodes(), backward) - graph.nodes().begin());
  }

  std::vector<NodeId> run() const {
    std::vector<NodeId> given(nodes_);
    std::iota(given.begin(), given.end(), NodeId{0});
    if (nodes_ == 0) return given;
    const std::size_t peak_given = std::ranges::max(live_bytes_of(use_, given));
    const auto least = double(least_peak(given));
    const double wanted = (1 - kMinSaving) * double(peak_given);
    if (least > wanted) return given;
    Ordered best = improve(given);
    const bool is_large =
        std::max(first_backward_, nodes_ - first_backward_) > OrderWindow::kWidest;
    if (const double much_less = (1 - kMinSavingOfSchedule) * double(best.peak);
        is_large && least <= much_less) {
      Ordered scheduled = improve(schedule());
      if (double(scheduled.peak) <= much_less) best = std::move(scheduled);
    }
    return double(best.peak) <= wanted ? best.nodes : given;
  }

 private:
  /// What no order goes below: what lives from forward to backward, and what each node touches.
  std::size_t least_peak(const std::vector<NodeId>& given) const {
    std::size_t least = live_before(given, first_backward_);
    for (const MemoryUse::Use& node : use_.nodes()) {
      std::size_t needed = node.workspace;
      for (int read : node.reads) needed += use_.storage(read).bytes;
      for (const MemoryUse::Made& made : node.makes)
        if (made.in_place_of < 0) needed += use_.storage(made.storage).bytes;
      least = std::max(least, needed);
    }
    return least;
  }

  /// Searches windows around the peak until it stays.
  Ordered improve(std::vector<NodeId> order) const {
    int budget = kOrderBudget;
    for (;;) {
      const std::vector<std::size_t> bytes = live_bytes_of(use_, order);
      const auto peak = std::ranges::max_element(bytes);
      const auto better = search_around(order, std::size_t(peak - bytes.begin()), *peak, budget);
      if (!better) return {std::move(order), *peak};
      order = *better;
    }
  }

  /// The order with a window around `step` changed so that less than `limit` is live in it. Narrow
  /// windows can be searched where the budget does not reach for wide ones.
  std::optional<std::vector<NodeId>> search_around(const std::vector<NodeId>& order,
                                                   std::size_t step,
                                                   std::size_t limit,
                                                   int& budget) const {
    for (std::size_t width : {OrderWindow::kWidest, std::size_t{24}, std::size_t{10}}) {
      const OrderWindow window = window_around(step, width);
      int allowed = std::min(budget, kWindowBudget);
      budget -= allowed;
      const std::vector<NodeId> best =
          search_window(use_, order, window, live_before(order, window.begin), limit, allowed);
      budget += std::max(0, allowed);
      if (!best.empty()) {
        std::vector<NodeId> changed = order;
        std::ranges::copy(best, changed.begin() + std::ptrdiff_t(window.begin));
        return changed;
      }
      if (allowed >= 0) return {};  // all of it was searched, and narrower ones lie within
    }
    return {};
  }

  OrderWindow window_around(std::size_t step, std::size_t width) const {
    const bool forward = step < first_backward_;
    const std::size_t first = forward ? 0 : first_backward_;
    const std::size_t end = forward ? first_backward_ : nodes_;
    const std::size_t latest = std::max(first, end - std::min(end, width));
    const std::size_t begin = std::clamp(step - std::min(step, width / 2), first, latest);
    return {begin, std::min(end, begin + width)};
  }

  std::size_t live_before(const std::vector<NodeId>& order, std::size_t position) const {
    LiveBytes live(use_);
    for (std::size_t i = 0; i < position; ++i) live.run(order[i]);
    return live.live();
  }

  /// What running a node next would change: the live bytes after it, those during it; the node.
  using Cost = std::tuple<std::ptrdiff_t, std::ptrdiff_t, NodeId>;

  static Cost cost(const LiveBytes& live, NodeId node) {
    const MemoryUse::Step step = live.look(node);
    return {
        std::ptrdiff_t(step.after - live.live()), std::ptrdiff_t(step.during - live.live()), node};
  }

  /// Of the nodes that can run, always one that leaves the fewest live bytes, then one that takes
  /// the fewest while it runs, then the first in the given order.
  std::vector<NodeId> schedule() const {
    std::vector<std::vector<NodeId>> followers(nodes_);
    std::vector<std::size_t> waits_for(nodes_);
    for (std::size_t i = 0; i < nodes_; ++i) {
      waits_for[i] = use_.nodes()[i].after.size();
      for (NodeId earlier : use_.nodes()[i].after)
        followers[std::size_t(earlier)].push_back(NodeId(i));
    }
    std::vector<NodeId> order, backward;  // of the backward part, those that can run once it begins
    LiveBytes live(use_);
    std::set<Cost> ready;
    std::vector<std::optional<Cost>> cost_of(nodes_);  // of those that are ready
    const auto enter = [&](NodeId node) {
      cost_of[std::size_t(node)] = cost(live, node);
      ready.insert(*cost_of[std::size_t(node)]);
    };
    const auto can_run = [&](NodeId node) {
      if (order.size() < first_backward_ && std::size_t(node) >= first_backward_)
        backward.push_back(node);
      else
        enter(node);
    };
    for (std::size_t i = 0; i < nodes_; ++i)
      if (waits_for[i] == 0) can_run(NodeId(i));
    while (order.size() < nodes_) {
      if (order.size() == first_backward_)
        for (const NodeId node : std::exchange(backward, {})) enter(node);
      LOCKSTEP_ASSERT(!ready.empty());
      const NodeId node = std::get<NodeId>(*ready.begin());
      ready.erase(ready.begin());
      cost_of[std::size_t(node)].reset();
      live.run(node);
      order.push_back(node);
      // Running its last reader ends a storage's life: no other event changes what a node costs.
      for (const int read : use_.of(node).reads)
        if (live.readers_left(read) == 1)
          for (const NodeId reader : use_.storage(read).readers)
            if (std::optional<Cost>& before = cost_of[std::size_t(reader)]) {
              ready.erase(*before);
              enter(reader);
            }
      for (NodeId follower : followers[std::size_t(node)])
        if (--waits_for[std::size_t(follower)] == 0) can_run(follower);
    }
    return order;
  }

  const MemoryUse use_;
  const std::size_t nodes_;
  std::size_t first_backward_ = 0;
};

}  // namespace

std::vector<NodeId> order_for_memory(const Graph& graph,
                                     const std::vector<std::size_t>& workspace_bytes) {
  return MemoryOrder(graph, workspace_bytes).run();
}

Graph in_order(const Graph& graph, const std::vector<NodeId>& order) {
  LOCKSTEP_ASSERT(order.size() == graph.nodes().size());
  GraphRewriter rewriter(graph);
  for (NodeId node : order) rewriter.copy(graph.nodes()[std::size_t(node)]);
  Graph result = rewriter.take();
  verify(result);
  return result;
}

}  // namespace lockstep
