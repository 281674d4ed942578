// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <fmt/format.h>

#include "tests/gpu/rates.h"

namespace lockstep::rates {
namespace {

/// One range for each parameter of GPT-2 124M, each starting at a multiple of 64 numbers.
std::vector<FlatRange> parameter_ranges(bool small) {
  const std::int64_t w = small ? 16 : 768, vocabulary = small ? 100 : 50257;
  std::vector<std::int64_t> elems{vocabulary * w, (small ? 8 : 1024) * w};
  for (int layer = 0; layer < (small ? 1 : 12); ++layer)
    elems.insert(elems.end(),
                 {w, w, 3 * w * w, 3 * w, w * w, w, w, w, 4 * w * w, 4 * w, 4 * w * w, w});
  elems.insert(elems.end(), {w, w});
  std::vector<FlatRange> ranges;
  std::int64_t offset = 0;
  for (std::int64_t n : elems) {
    ranges.push_back({.offset = offset, .elems = n, .weight_decay = 0.1f});
    offset += (n + 63) / 64 * 64;
  }
  return ranges;
}

/// What is done with one array of all parameters or gradients.
class FlatCases {
 public:
  explicit FlatCases(Rates& rates) : rates_(rates) {}

  void time_copies();
  void time_updates();
  void time_sums();
  void time_hash();
  void time_messages();

 private:
  void time_update(const std::string& name, const Optimizer& optimizer, bool rounded = false);
  std::shared_ptr<DeviceBuffer> filled() { return rates_.filled(type_, {.low = 0, .high = 1e-3f}); }
  /// `moved`: how often the whole array is read or written.
  void time(const std::string& name,
            double moved,
            const std::function<std::function<void()>()>& prepare) {
    rates_.time({.name = name, .shape = type_.shape.to_string()},
                {.flops = 0, .bytes = moved * double(type_.bytes())},
                type_.bytes(),
                prepare);
  }

  Rates& rates_;
  Backend& backend_ = rates_.backend();
  const std::vector<FlatRange> ranges_ = parameter_ranges(rates_.small());
  const std::int64_t elems_ = ranges_.back().offset + ranges_.back().elems;
  const TensorType type_ = f32({elems_});
};

void FlatCases::time_copies() {
  time("copy", 2, [this] {
    return [this, to = filled(), from = filled()] {
      backend_.copy(to->data(), from->data(), type_.bytes());
    };
  });
  time("flat add", 3, [this] {
    return [this, a = filled(), b = filled()] {
      backend_.add(a->as<float>(), a->as<float>(), b->as<float>(), elems_);
    };
  });
}

void FlatCases::time_update(const std::string& name, const Optimizer& optimizer, bool rounded) {
  // Parameters are read and written, so is each array of state, and gradients are read.
  const double moved = 3 + 2 * state_arrays(optimizer) + (rounded ? 0.5 : 0);
  time(name, moved, [this, optimizer, rounded] {
    std::vector<std::shared_ptr<DeviceBuffer>> arrays{filled(), filled()};
    OptimizerUpdate update{.optimizer = optimizer,
                           .params = arrays[0]->as<float>(),
                           .grads = arrays[1]->as<float>(),
                           .lr = 1e-3f,
                           .step = 1};
    for (int i = 0; i < state_arrays(optimizer); ++i)
      update.state[std::size_t(i)] = arrays.emplace_back(filled())->as<float>();
    if (rounded)
      update.rounded =
          arrays.emplace_back(rates_.filled({type_.shape, DType::bf16}, {.low = 0, .high = 1e-3f}))
              ->as<std::uint16_t>();
    return [this, arrays, update] { backend_.optimizer_update(update, ranges_); };
  });
}

void FlatCases::time_updates() {
  time_update("sgd_update", Sgd{});
  time_update("sgd_update momentum", Sgd{.momentum = 0.9f});
  time_update("adamw_update", AdamW{.beta2 = 0.95f});
  time_update("adamw_update rounded", AdamW{.beta2 = 0.95f}, true);
  time("update_running_statistics", 3, [this] {
    return [this, value = filled(), sum = filled()] {
      const RunningStatistic all{.offset = 0, .elems = elems_, .weight = 0, .momentum = 0.1f};
      backend_.update_running_statistics(value->as<float>(), sum->as<float>(), {&all, 1}, nullptr);
    };
  });
}

void FlatCases::time_sums() {
  // Powers of two: a balanced tree.
  for (const int terms : {2, 8, 32})
    time(fmt::format("sum_tree {}", terms), terms + 1, [this, terms] {
      std::vector<std::shared_ptr<DeviceBuffer>> values;
      std::vector<TreeTerm> tree;
      for (int t = 0; t < terms; ++t) {
        values.push_back(filled());
        tree.push_back({values.back()->as<float>(), std::countr_zero(unsigned(t + 1))});
      }
      return [this, values, tree] { backend_.sum_tree(tree, tree[0].values, elems_); };
    });
  time("squared_norms, sent to the host", 1, [this] {
    return [this, g = filled(), norms = std::vector<double>(ranges_.size())]() mutable {
      backend_.squared_norms(g->as<float>(), ranges_, norms.data());
    };
  });
  time("conclude_step", 1, [this] {
    return [this, g = filled(), outcome = rates_.filled(f32({sizeof(StepOutcome)}))] {
      backend_.conclude_step({.gradients = g->as<float>(), .tensors = ranges_},
                             outcome->as<StepOutcome>());
    };
  });
  // What a norm ends with that ranks have computed in parts.
  const std::int64_t count = std::int64_t(ranges_.size());
  rates_.time(
      {.name = "add_in_order", .shape = fmt::format("[{}] in f64", count)},
      {.flops = 0, .bytes = double(count) * sizeof(double)},
      std::size_t(count) * sizeof(double),
      [this, count] {
        return [this, count, v = rates_.filled(f32({2 * count})), sum = rates_.filled(f32({2}))] {
          backend_.add_in_order(v->as<double>(), {&count, 1}, sum->as<double>());
        };
      });
}

void FlatCases::time_hash() {
  std::vector<HashRange> ranges;
  for (const FlatRange& range : ranges_)
    ranges.push_back({.offset = range.offset, .elems = range.elems});
  time("hash, sent to the host", 1, [this, ranges] {
    return
        [this, ranges, v = filled(), hashes = std::vector<std::uint64_t>(ranges.size())]() mutable {
          backend_.hash(v->as<float>(), ranges, hashes.data());
        };
  });
}

void FlatCases::time_messages() {
  std::vector<WeightPiece> pieces;
  for (const FlatRange& range : ranges_)
    pieces.push_back(
        {.offset = range.offset, .elems = range.elems, .place = range.offset, .bf16 = true});
  time("pack_weights, bf16", 1.5, [this, pieces] {
    return [this, pieces, v = filled(), message = filled()] {
      backend_.pack_weights(v->as<float>(), pieces, message->as<std::uint16_t>());
    };
  });
  time("unpack_weights, bf16", 1.5, [this, pieces] {
    return [this, pieces, v = filled(), message = filled()] {
      backend_.unpack_weights(message->as<std::uint16_t>(), pieces, v->as<float>());
    };
  });
}

}  // namespace

void time_flat(Rates& rates) {
  FlatCases cases(rates);
  cases.time_copies();
  cases.time_updates();
  cases.time_sums();
  cases.time_hash();
  cases.time_messages();
}

}  // namespace lockstep::rates
