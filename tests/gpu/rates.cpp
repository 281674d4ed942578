// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/rates.h"

#include <chrono>
#include <cmath>
#include <fstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "core/ops/activations/relu.h"
#include "core/ops/linear.h"

namespace lockstep::rates {
namespace {

constexpr double kAim = 85;                              // percent of the copy bandwidth
constexpr std::size_t kAimFrom = std::size_t(64) << 20;  // bytes of the largest tensor
constexpr double kTiming = 0.01;                         // seconds a timing takes at least
constexpr int kTimings = 7;
/// Up to here runs are so short that the host's launches show in them.
constexpr double kLaunches = 3;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string cell(double value, const char* unit = "") {
  return value > 0 && std::isfinite(value) ? fmt::format("{:.1f}{}", value, unit) : "";
}

std::string_view type_words(const Case& what) { return what.tf32 ? "tf32" : name_of(what.type); }

}  // namespace

Rates::Rates(Backend& backend, const Options& options) : backend_(backend), options_(options) {
  peaks_ = backend.measure_peaks();
  measure_reference();
}

/// The rates of the backend's own measurement or of the same work timed here, whichever is higher.
void Rates::measure_reference() {
  fmt::print("{}\n\n", backend_.device_class());
  {
    OperatorRun empty(backend_, ops::Relu(), {{{1}, DType::f32}});
    launch_seconds_ = median_seconds([&] { empty.run(); });
  }
  fmt::print(
      "An operator on one number takes {:.1f} us: times up to {:.1f} us (marked *) are as "
      "much the host's launches as the device's work.\n\n",
      launch_seconds_ * 1e6,
      kLaunches * launch_seconds_ * 1e6);
  const std::string only = std::exchange(options_.only, "");
  print_heading();
  const std::size_t bytes = std::size_t(1) << (small() ? 14 : 30);
  const TensorType memory{{std::int64_t(bytes / 4)}, DType::f32};
  time({.name = "copy", .shape = memory.shape.to_string()}, {0, 2.0 * double(bytes)}, bytes, [&] {
    return [this, bytes, from = filled(memory), to = filled(memory)] {
      backend_.copy(to->data(), from->data(), bytes);
    };
  });
  const Rate& copied = rates_.back();
  if (copied.error.empty())
    peaks_.bytes = std::max(peaks_.bytes, copied.cost.bytes / copied.seconds);
  const std::int64_t n = small() ? 32 : 8192;
  for (const auto& [type, tf32, peak] : {std::tuple{DType::f32, false, &peaks_.fp32_flops},
                                         {DType::f32, true, &tf32_flops_},
                                         {DType::bf16, false, &peaks_.bf16_flops}}) {
    time({.name = "linear, reference",
          .shape = fmt::format("{0} x {0} x {0}", n),
          .type = type,
          .tf32 = tf32,
          .memory_bound = false},
         ops::Linear(false),
         {{{n, n}, type}, {{n, n}, DType::f32}});
    const Rate& product = rates_.back();
    if (product.error.empty()) *peak = std::max(*peak, product.cost.flops / product.seconds);
  }
  options_.only = only;
  fmt::print(
      "\nMeasured: copy {:.1f} GB/s read and written, products {:.1f} TFLOP/s in fp32, {:.1f} in "
      "tf32 and {:.1f} in bf16.\n\n",
      peaks_.bytes * 1e-9,
      peaks_.fp32_flops * 1e-12,
      tf32_flops_ * 1e-12,
      peaks_.bf16_flops * 1e-12);
  print_heading();
}

double Rates::median_seconds(const std::function<void()>& run) {
  const auto timed = [&](int runs) {
    backend_.synchronize();
    const double begin = now();
    for (int i = 0; i < runs; ++i) run();
    backend_.synchronize();
    return (now() - begin) / runs;
  };
  double once = timed(1);  // warms up
  if (small()) return timed(1);
  once = std::min(timed(3), once);
  const int runs = std::max(3, int(kTiming / std::max(once, 1e-7)));
  timed(runs);
  std::vector<double> seconds;
  for (int i = 0; i < kTimings; ++i) seconds.push_back(timed(runs));
  std::nth_element(seconds.begin(), seconds.begin() + kTimings / 2, seconds.end());
  return seconds[kTimings / 2];
}

std::shared_ptr<DeviceBuffer> Rates::filled(const TensorType& type, const Fill& values) {
  std::shared_ptr<DeviceBuffer> memory = backend_.allocate(type.bytes(), "benchmark");
  fill(backend_, memory->data(), type, values, ++filled_);
  return memory;
}

bool Rates::wanted(const Case& what) const {
  return what.name.find(options_.only) != std::string::npos;
}

void Rates::time(const Case& what, const Operator& op, const std::vector<TensorType>& inputs) {
  if (!wanted(what)) return;
  Rate rate{.what = what};
  try {
    backend_.allow_tf32(what.tf32);
    backend_.take_choices("");
    OperatorRun run(backend_, op, inputs, what.fill);
    backend_.allow_tf32(false);
    rate.chosen = chosen_in(backend_.choices());
    if (what.accumulate) run.accumulate();
    rate.cost = run.cost();
    for (const auto* types : {&run.inputs(), &run.outputs()})
      for (const TensorType& type : *types)
        rate.largest_tensor = std::max(rate.largest_tensor, type.bytes());
    rate.seconds = median_seconds([&] { run.run(); });
    if (run.packs()) rate.conversion_seconds = median_seconds([&] { run.pack(); });
  } catch (const std::exception& error) {
    backend_.allow_tf32(false);
    rate.error = error.what();
  }
  if (rate.what.shape.empty()) rate.what.shape = inputs[0].shape.to_string();
  rate.largest_tensor = std::min(rate.largest_tensor, std::size_t(rate.cost.bytes));
  record(std::move(rate));
}

void Rates::time(const Case& what,
                 const Cost& cost,
                 std::size_t largest_tensor,
                 const std::function<std::function<void()>()>& prepare) {
  if (!wanted(what)) return;
  Rate rate{.what = what, .cost = cost, .largest_tensor = largest_tensor};
  try {
    rate.seconds = median_seconds(prepare());
  } catch (const std::exception& error) {
    rate.error = error.what();
  }
  record(std::move(rate));
}

double Rates::percent_of_copy(const Rate& rate) const {
  return 100 * rate.cost.bytes / rate.seconds / peaks_.bytes;
}

double Rates::percent_of_products(const Rate& rate) const {
  const double peak = rate.what.tf32                  ? tf32_flops_
                      : rate.what.type == DType::bf16 ? peaks_.bf16_flops
                                                      : peaks_.fp32_flops;
  return 100 * rate.cost.flops / rate.seconds / peak;
}

void Rates::print_heading() const {
  fmt::print(
      "| operator | type | shape | us | + conversion | GB/s | of the copy | TFLOP/s | of the "
      "products |\n|---|---|---|---|---|---|---|---|---|\n");
}

void Rates::record(Rate rate) {
  const Case& what = rate.what;
  const std::string start =
      fmt::format("| {} | {} | {} |", what.name, type_words(what), what.shape);
  if (!rate.error.empty()) {
    std::ranges::replace_if(
        rate.error, [](char c) { return c == '\n' || c == '|'; }, ' ');
    fmt::print("{} not measured: {} | | | | | |\n", start, rate.error);
  } else {
    const bool products = !what.memory_bound;
    fmt::print("{} {:.1f}{} | {} | {} | {} | {} | {} |\n",
               start,
               rate.seconds * 1e6,
               rate.seconds < kLaunches * launch_seconds_ ? "*" : "",
               cell(rate.conversion_seconds * 1e6),
               cell(rate.cost.bytes / rate.seconds * 1e-9),
               cell(percent_of_copy(rate), "%"),
               products ? cell(rate.cost.flops / rate.seconds * 1e-12) : "",
               products ? cell(percent_of_products(rate), "%") : "");
  }
  std::fflush(stdout);
  rates_.push_back(std::move(rate));
}

void Rates::print_judgement() const {
  int judged = 0, below = 0;
  std::string lines;
  for (const Rate& rate : rates_) {
    if (!rate.what.memory_bound || !rate.error.empty() || rate.largest_tensor < kAimFrom) continue;
    ++judged;
    const double percent = percent_of_copy(rate);
    if (percent >= kAim) continue;
    ++below;
    lines += fmt::format(
        "- {:.1f}% {} {} {}\n", percent, rate.what.name, name_of(rate.what.type), rate.what.shape);
  }
  fmt::print("\nMemory-bound, with a tensor of 64 MiB at least: {} of {} below {}% of the copy\n{}",
             below,
             judged,
             kAim,
             lines);
}

void Rates::print_chosen() const {
  int fallbacks = 0;
  fmt::print("\nAlgorithms of the libraries:\n");
  for (const Rate& rate : rates_)
    for (const Chosen& chosen : rate.chosen) {
      fallbacks += chosen.algorithm.empty() ? 1 : 0;
      fmt::print("- {} {}: {}\n", rate.what.name, type_words(rate.what), words_of(chosen));
    }
  fmt::print("Fallbacks: {}\n", fallbacks);
}

void Rates::write_json(const std::string& file) const {
  nlohmann::ordered_json all{{"device", backend_.device_class()},
                             {"small", options_.small},
                             {"launch_us", launch_seconds_ * 1e6},
                             {"copy_gb_s", peaks_.bytes * 1e-9},
                             {"fp32_tflops", peaks_.fp32_flops * 1e-12},
                             {"tf32_tflops", tf32_flops_ * 1e-12},
                             {"bf16_tflops", peaks_.bf16_flops * 1e-12},
                             {"rates", nlohmann::ordered_json::array()}};
  for (const Rate& rate : rates_) {
    const Case& what = rate.what;
    nlohmann::ordered_json line{{"operator", what.name},
                                {"type", type_words(what)},
                                {"shape", what.shape},
                                {"memory_bound", what.memory_bound},
                                {"largest_tensor", rate.largest_tensor}};
    if (!rate.error.empty()) {
      line["error"] = rate.error;
    } else {
      line["us"] = rate.seconds * 1e6;
      line["conversion_us"] = rate.conversion_seconds * 1e6;
      line["gb_s"] = rate.cost.bytes / rate.seconds * 1e-9;
      line["percent_of_copy"] = percent_of_copy(rate);
      if (!what.memory_bound) {
        line["tflops"] = rate.cost.flops / rate.seconds * 1e-12;
        line["percent_of_products"] = percent_of_products(rate);
      }
    }
    for (const Chosen& chosen : rate.chosen) line["chosen"].push_back(words_of(chosen));
    if (!what.torch.is_null()) line["torch"] = what.torch;
    all["rates"].push_back(std::move(line));
  }
  std::ofstream out(file);
  out << all.dump(1) << '\n';
  out.close();
  LOCKSTEP_CHECK(out.good(), EnvironmentError, "cannot write {}", file);
}

bool Rates::all_measured() const {
  return std::ranges::all_of(rates_, [](const Rate& rate) { return rate.error.empty(); });
}

}  // namespace lockstep::rates
