// SPDX-License-Identifier: Apache-2.0
#include "core/plan/recompute.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "core/graph/rewrite.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

/// Copies a graph; where backward reads a dropped value, its producers are emitted again first.
class RecomputePass {
 public:
  RecomputePass(const Graph& graph, const std::vector<bool>& dropped)
      : graph_(graph),
        dropped_(dropped),
        rewriter_(graph),
        again_(graph.values().size(), kNoValue) {}

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      if (node.phase == NodePhase::forward) {
        rewriter_.copy(node);
        continue;
      }
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(resolve(input, node));
      const auto outputs = rewriter_.emit(node, node.op, std::move(inputs));
      for (std::size_t i = 0; i < outputs.size(); ++i)
        rewriter_.replace(node.outputs[i], outputs[i]);
    }
    return rewriter_.take();
  }

 private:
  ValueId resolve(ValueId value, const Node& reader) {
    if (!dropped_[std::size_t(value)]) return rewriter_.mapped(value);
    ValueId& copy = again_[std::size_t(value)];
    if (copy != kNoValue) return copy;
    const Node& producer = graph_.nodes()[std::size_t(graph_.value(value).producer)];
    std::vector<ValueId> inputs;
    for (ValueId input : producer.inputs) inputs.push_back(resolve(input, reader));
    Node like = producer;
    like.phase = NodePhase::backward;
    const auto outputs = rewriter_.emit(like, producer.op, std::move(inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      again_[std::size_t(producer.outputs[i])] = outputs[i];
    return again_[std::size_t(value)];
  }

  const Graph& graph_;
  const std::vector<bool>& dropped_;
  GraphRewriter rewriter_;
  std::vector<ValueId> again_;
};

/// Values that are kept together.
using Cut = std::vector<ValueId>;

/// Bytes between cuts, which are counted from 1; 0 is the beginning, and one past the last the end.
class SegmentBytes {
 public:
  SegmentBytes(const Graph& graph, const std::vector<ValueId>& kept, const std::vector<Cut>& cuts)
      : own_(cuts.size() + 2, 0), before_(cuts.size() + 2, 0) {
    const auto bytes_of = [&](ValueId v) { return double(graph.value(v).type.bytes()); };
    std::size_t next = 0;
    for (std::size_t cut = 1; cut <= cuts.size() + 1; ++cut) {
      before_[cut] = before_[cut - 1];
      const bool is_end = cut > cuts.size();
      for (; next < kept.size() && (is_end || kept[next] <= cuts[cut - 1].back()); ++next)
        before_[cut] += bytes_of(kept[next]);
      if (is_end) continue;
      for (const ValueId v : cuts[cut - 1]) own_[cut] += bytes_of(v);
    }
  }

  /// Of the activations that backward reads after cut `from` up to and with cut `to`.
  double between(std::size_t from, std::size_t to) const { return before_[to] - before_[from]; }

  /// Checkpoints of the least sum with which none of the segments, together with the checkpoints
  /// before it, takes more than `peak`. Nothing: there are none.
  std::optional<std::vector<std::size_t>> checkpoints_within(double peak) const {
    const std::size_t end = own_.size() - 1;
    std::vector<double> kept(own_.size(), HUGE_VAL);  // up to each cut, as a checkpoint
    std::vector<std::size_t> last(own_.size(), 0);
    kept[0] = 0;
    // What a cut keeps and needs only grows with `to`: a cut too far back stays too far back.
    using Reached = std::pair<double, std::size_t>;  // kept up to a cut, and the cut
    std::priority_queue<Reached, std::vector<Reached>, std::greater<>> least;
    for (std::size_t to = 1; to <= end; ++to) {
      least.emplace(kept[to - 1], to - 1);
      while (!least.empty() && least.top().first + between(least.top().second, to) > peak)
        least.pop();
      if (least.empty()) continue;
      kept[to] = least.top().first + own_[to];
      last[to] = least.top().second;
    }
    if (kept[end] == HUGE_VAL) return std::nullopt;
    std::vector<std::size_t> chosen;
    for (std::size_t cut = last[end]; cut > 0; cut = last[cut]) chosen.push_back(cut);
    std::ranges::reverse(chosen);
    return chosen;
  }

 private:
  std::vector<double> own_, before_;
};

/// What the choices are made from: forward activations that backward reads.
class Candidates {
 public:
  explicit Candidates(const Graph& graph) : graph_(graph) {
    const std::size_t values = graph.values().size();
    last_forward_use_.assign(values, -1);
    std::vector<bool> read_by_backward(values, false);
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (node.phase == NodePhase::forward) forward_nodes_ = i + 1;
      for (ValueId input : node.inputs) {
        if (node.phase == NodePhase::backward)
          read_by_backward[std::size_t(input)] = true;
        else
          last_forward_use_[std::size_t(input)] = int(i);
      }
    }
    for (std::size_t v = 0; v < values; ++v)
      if (read_by_backward[v] && can_run_again(ValueId(v))) kept_.push_back(ValueId(v));
  }

  /// Activations whose producer costs at most `flops_per_byte` of its output; but for cuts, after
  /// which a residual stream would be computed from its beginning.
  std::vector<bool> cheaper_than(double flops_per_byte) const {
    std::vector<bool> dropped(graph_.values().size(), false);
    for (std::size_t v = 0; v < dropped.size(); ++v)
      dropped[v] = can_run_again(ValueId(v)) && cost_per_byte(ValueId(v)) <= flops_per_byte;
    for (const Cut& cut : cuts())
      for (ValueId v : cut) dropped[std::size_t(v)] = false;
    return dropped;
  }

  double cost_per_byte(ValueId value) const {
    return flops_of(graph_.value(value).producer) /
           std::max(1.0, double(graph_.value(value).type.bytes()));
  }

  /// Where forward can be cut: all later nodes read nothing earlier but inputs and the outputs of
  /// one node, which are listed (a sum and its norm, where the norm makes both).
  std::vector<Cut> cuts() const {
    std::vector<Cut> cuts;
    std::set<ValueId> open;
    for (std::size_t i = 0; i < forward_nodes_; ++i) {
      for (ValueId output : graph_.nodes()[i].outputs)
        if (last_forward_use_[std::size_t(output)] > int(i)) open.insert(output);
      std::erase_if(open, [&](ValueId v) { return last_forward_use_[std::size_t(v)] <= int(i); });
      if (open.empty()) continue;
      const NodeId producer = graph_.value(*open.begin()).producer;
      const bool one = std::ranges::all_of(
          open, [&](ValueId v) { return graph_.value(v).producer == producer; });
      const Cut cut(open.begin(), open.end());
      if (one && (cuts.empty() || cuts.back() != cut)) cuts.push_back(cut);
    }
    return cuts;
  }

  /// Drops every activation between `checkpoints`, but not after the last one: those are alive
  /// when backward begins in any case.
  std::vector<bool> all_but(const std::vector<Cut>& checkpoints) const {
    std::vector<bool> dropped(graph_.values().size(), false);
    if (checkpoints.empty()) return dropped;
    for (ValueId v = 0; v < checkpoints.back().back(); ++v)
      dropped[std::size_t(v)] = can_run_again(v);
    for (const Cut& cut : checkpoints)
      for (ValueId v : cut) dropped[std::size_t(v)] = false;
    return dropped;
  }

  /// Those of `cuts` between which activations are dropped so that the most that is alive at once
  /// in backward is least: while a segment is computed again, its activations, and the checkpoints
  /// before it. After them those of later segments are gone already.
  std::vector<Cut> checkpoints_of_least_peak(const std::vector<Cut>& cuts) const {
    const SegmentBytes bytes(graph_, kept_, cuts);
    double least = 0, most = bytes.between(0, cuts.size() + 1);
    std::vector<std::size_t> best;
    constexpr int kHalvings = 30;
    for (int i = 0; i < kHalvings; ++i) {
      const double peak = (least + most) / 2;
      if (const auto chosen = bytes.checkpoints_within(peak)) {
        best = *chosen;
        most = peak;
      } else {
        least = peak;
      }
    }
    std::vector<Cut> checkpoints;
    for (const std::size_t cut : best) checkpoints.push_back(cuts[cut - 1]);
    return checkpoints;
  }

  /// FLOPs of the nodes that run again.
  double cost(const std::vector<bool>& dropped) const {
    std::set<NodeId> again;
    for (ValueId v : kept_)
      if (dropped[std::size_t(v)]) collect(v, dropped, again);
    double flops = 0;
    for (NodeId node : again) flops += flops_of(node);
    return flops;
  }

 private:
  /// Collectives stay where every rank expects them; statistics and losses are small or sums.
  bool can_run_again(ValueId value) const {
    const ValueInfo& info = graph_.value(value);
    if (info.role != ValueRole::activation || info.accumulates_into >= 0) return false;
    const Node& producer = graph_.nodes()[std::size_t(info.producer)];
    if (producer.phase == NodePhase::backward || producer.op->is_loss()) return false;
    return producer.op->kind() != OpKind::all_gather &&
           producer.op->kind() != OpKind::batch_norm_moments;
  }

  double flops_of(NodeId id) const {
    const Node& node = graph_.nodes()[std::size_t(id)];
    return node.op->cost(graph_.types_of(node.inputs), graph_.types_of(node.outputs)).flops;
  }

  void collect(ValueId value, const std::vector<bool>& dropped, std::set<NodeId>& again) const {
    if (!dropped[std::size_t(value)]) return;
    const NodeId producer = graph_.value(value).producer;
    if (!again.insert(producer).second) return;
    for (ValueId input : graph_.nodes()[std::size_t(producer)].inputs)
      collect(input, dropped, again);
  }

  const Graph& graph_;
  std::size_t forward_nodes_ = 0;
  std::vector<int> last_forward_use_;
  std::vector<ValueId> kept_;
};

}  // namespace

std::string_view name_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::all:
      return "all";
    case Recompute::automatic:
      return "auto";
  }
  throw InternalError("unknown recompute mode");
}

Graph recompute(const Graph& graph, const std::vector<bool>& dropped) {
  return RecomputePass(graph, dropped).run();
}

std::vector<RecomputeChoice> recompute_choices(const Graph& graph) {
  const Candidates candidates(graph);
  std::vector<RecomputeChoice> choices{
      {.dropped = std::vector<bool>(graph.values().size(), false)}};
  // Operations a byte: copies and ReLU, normalisations and GELU, small products.
  for (const double flops_per_byte : {1.0, 8.0, 64.0}) {
    const std::vector<bool> dropped = candidates.cheaper_than(flops_per_byte);
    const double flops = candidates.cost(dropped);
    if (flops > choices.back().flops) choices.push_back({.dropped = dropped, .flops = flops});
  }
  const std::vector<Cut> cuts = candidates.cuts();
  if (cuts.empty()) return choices;
  const std::vector<bool> dropped = candidates.all_but(candidates.checkpoints_of_least_peak(cuts));
  if (const double flops = candidates.cost(dropped); flops > 0)
    choices.push_back({.dropped = dropped, .flops = flops, .is_checkpoints = true});
  std::ranges::stable_sort(choices, {}, &RecomputeChoice::flops);
  return choices;
}

std::size_t index_of_all(const std::vector<RecomputeChoice>& choices) {
  const auto checkpoints = std::ranges::find_if(choices, &RecomputeChoice::is_checkpoints);
  return checkpoints == choices.end() ? choices.size() - 1
                                      : std::size_t(checkpoints - choices.begin());
}

}  // namespace lockstep
