// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/benchmarks/operator_run.h"
#include "tests/gpu/chosen.h"

namespace lockstep::rates {

inline TensorType f32(const Shape& shape) { return {shape, DType::f32}; }

/// What one line of the table is about.
struct Case {
  std::string name;  ///< the operator and what there is to know about it: "layer_norm residual"
  std::string shape = {};    ///< that of the first input, where empty
  DType type = DType::f32;   ///< in which it computes
  bool tf32 = false;         ///< of f32: products may round their factors
  bool memory_bound = true;  ///< to be judged by bytes a second
  bool accumulate = false;   ///< gradients are added to what is there
  Fill fill = {};
  nlohmann::ordered_json torch = nullptr;  ///< what torch_rates.py needs to do the same
};

struct Rate {
  Case what = {};
  Cost cost = {};
  /// In bytes; no more than is moved, as a table may be from which a few rows are read.
  std::size_t largest_tensor = 0;
  double seconds = 0;               ///< of one run
  double conversion_seconds = 0;    ///< of the bf16 copy of its parameters; 0 where there is none
  std::vector<Chosen> chosen = {};  ///< of the library's algorithms, for this case alone
  std::string error = {};           ///< why there are no seconds
};

struct Options {
  bool small = false;     ///< each timing once and briefly: for an emulated device
  std::string only = {};  ///< cases with this in their name
};

/// Times operators one by one and prints each line of the table as soon as it is measured. By the
/// wall clock around as many runs as fill a timing and one Backend::synchronize(); the median of
/// several timings. A case that throws becomes a line with its error, and the others continue.
class Rates {
 public:
  /// Measures what the others are judged by: a copy, GEMMs and an empty launch.
  Rates(Backend& backend, const Options& options);

  void time(const Case& what, const Operator& op, const std::vector<TensorType>& inputs);
  /// `prepare` allocates and returns what is timed; it moves `cost.bytes`.
  void time(const Case& what,
            const Cost& cost,
            std::size_t largest_tensor,
            const std::function<std::function<void()>()>& prepare);

  Backend& backend() { return backend_; }
  bool small() const { return options_.small; }
  /// Memory with values of `fill` in it.
  std::shared_ptr<DeviceBuffer> filled(const TensorType& type, const Fill& values = {});

  /// The lines after the table: memory-bound operators below 85% of the copy bandwidth.
  void print_judgement() const;
  /// A line for each product and convolution that the library was asked for: which algorithm runs
  /// it, and where what was asked for was refused.
  void print_chosen() const;
  /// Everything, with the shapes that torch_rates.py repeats.
  void write_json(const std::string& file) const;
  bool all_measured() const;

 private:
  bool wanted(const Case& what) const;
  double median_seconds(const std::function<void()>& run);
  void measure_reference();
  void print_heading() const;
  void record(Rate rate);
  double percent_of_copy(const Rate& rate) const;
  double percent_of_products(const Rate& rate) const;

  Backend& backend_;
  Options options_;
  DevicePeaks peaks_;
  double tf32_flops_ = 0;
  double launch_seconds_ = 0;
  std::uint64_t filled_ = 0;
  std::vector<Rate> rates_;
};

/// The cases, in the sizes of GPT-2 124M and ResNet-50, or small.
void time_elementwise(Rates& rates);
void time_feature_maps(Rates& rates);
void time_transformer(Rates& rates);
void time_flat(Rates& rates);
void time_store_gradient(Rates& rates);
void time_attention(Rates& rates);
void time_linear(Rates& rates);
void time_convolutions(Rates& rates);

}  // namespace lockstep::rates
