// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "parallel/cost/cost_model.h"

namespace lockstep {
namespace {

/// Weight of staying at the start, in squared relative errors: decides only where points do not.
constexpr double kPrior = 1e-6;
constexpr double kMaxContention = 8, kMaxSlowness = 1e4;

double squared(double x) { return x * x; }

/// Where `cost`, with one valley in [low, high], is least. Kiefer 1953, golden-section search.
double least_at(double low, double high, const std::function<double(double)>& cost) {
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double a = high - golden * (high - low), b = low + golden * (high - low);
  double at_a = cost(a), at_b = cost(b);
  for (int i = 0; i < 60; ++i) {
    if (at_a <= at_b) {
      high = b;
      b = a;
      at_b = at_a;
      a = high - golden * (high - low);
      at_a = cost(a);
    } else {
      low = a;
      a = b;
      at_a = at_b;
      b = low + golden * (high - low);
      at_b = cost(b);
    }
  }
  return (low + high) / 2;
}

/// The least of `cost` over a grid, refined around its lowest point: valleys may be several.
double least_on_grid(double low, double high, const std::function<double(double)>& cost) {
  constexpr int kCells = 64;
  const double cell = (high - low) / kCells;
  int best = 0;
  double least = cost(low);
  for (int i = 1; i <= kCells; ++i)
    if (const double value = cost(low + i * cell); value < least) {
      least = value;
      best = i;
    }
  const double at = least_at(
      std::max(low, low + (best - 1) * cell), std::min(high, low + (best + 1) * cell), cost);
  return cost(at) < least ? at : low + best * cell;
}

/// Least squares for compute = slowed (fixed + per_sample * samples), neither negative.
class ComputeFit {
 public:
  ComputeFit(const Workload& work, const Machine& machine, std::span<const MeasuredStep> steps)
      : work_(work), machine_(machine), steps_(steps) {}

  CostParameters at(double contention, const CostParameters& start) const {
    CostParameters result = start;
    result.contention = contention;
    // Of the relative errors 1 - (fixed * u + per_sample * v).
    double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
    for (const MeasuredStep& step : steps_) {
      const double u = coefficient(step, {.fixed_s = 1, .contention = contention});
      const double v = coefficient(step, {.per_sample_s = 1, .contention = contention});
      uu += u * u;
      uv += u * v;
      vv += v * v;
      u1 += u;
      v1 += v;
    }
    const double determinant = uu * vv - uv * uv;
    const bool both = determinant > 1e-9 * uu * vv;
    result.fixed_s = both ? (u1 * vv - v1 * uv) / determinant : 0;
    result.per_sample_s = both ? (v1 * uu - u1 * uv) / determinant : v1 / vv;
    if (result.fixed_s < 0) {
      result.fixed_s = 0;
      result.per_sample_s = v1 / vv;
    } else if (result.per_sample_s < 0) {
      result.per_sample_s = 0;
      result.fixed_s = u1 / uu;
    }
    return result;
  }

  double error(double contention, const CostParameters& start) const {
    const CostParameters tried = at(contention, start);
    double sum = kPrior * squared(contention - start.contention);
    for (const MeasuredStep& step : steps_) sum += squared(1 - coefficient(step, tried));
    return sum;
  }

 private:
  double coefficient(const MeasuredStep& step, const CostParameters& parameters) const {
    return predict(work_, machine_, parameters, step.share).compute_s /
           (step.step_s - step.exposed_s);
  }

  const Workload& work_;
  const Machine& machine_;
  std::span<const MeasuredStep> steps_;
};

/// Least squares for the exposed communication of `steps`; compute is known.
class ExposedFit {
 public:
  ExposedFit(const Workload& work,
             const Machine& machine,
             std::span<const MeasuredStep> steps,
             const CostParameters& start)
      : work_(work),
        machine_(machine),
        steps_(steps),
        start_(start),
        used_(links_used(machine.network, steps)) {}

  /// Sets slowness and imbalance of `parameters` to what fits best with its overlap; the error.
  /// Links take turns: with points inside one host and others between hosts, each of the two
  /// decides about one of them, and a few turns resolve both.
  double resolve(CostParameters& parameters) const {
    constexpr int kTurns = 8;
    double least = error(parameters);
    for (int turn = 0; turn < kTurns; ++turn) {
      const double before = least;
      if (used_.inside) least = resolve_link(parameters, &CostParameters::slowness_inside);
      if (used_.between) least = resolve_link(parameters, &CostParameters::slowness_between);
      if (!(used_.inside && used_.between) || least > before * (1 - 1e-6)) break;
    }
    return least;
  }

 private:
  double resolve_link(CostParameters& parameters, double CostParameters::*slowness) const {
    const auto at = [&](double logarithm) {
      parameters.*slowness = std::exp(logarithm);
      return error(parameters);
    };
    return at(least_on_grid(-std::log(kMaxSlowness), std::log(kMaxSlowness), at));
  }

  /// With the imbalance that fits best, to which it is set.
  double error(CostParameters& parameters) const {
    const auto far = [&](double CostParameters::*slowness) {
      return kPrior * squared(std::log(parameters.*slowness / start_.*slowness));
    };
    return resolve_imbalance(parameters) + far(&CostParameters::slowness_inside) +
           far(&CostParameters::slowness_between) +
           kPrior * squared(parameters.overlap - start_.overlap);
  }

  /// The exposed communication is linear in it.
  double resolve_imbalance(CostParameters& parameters) const {
    double product = kPrior * start_.imbalance, square = kPrior;
    parameters.imbalance = 0;
    std::vector<std::pair<double, double>> terms;  // what is missing, and what 1 would add
    for (const MeasuredStep& step : steps_) {
      const double without = exposed(step, parameters, 0);
      const double missing = (step.exposed_s - without) / step.step_s;
      const double added = (exposed(step, parameters, 1) - without) / step.step_s;
      terms.emplace_back(missing, added);
      product += missing * added;
      square += added * added;
    }
    parameters.imbalance = std::max(0.0, product / square);
    double error = kPrior * squared(parameters.imbalance - start_.imbalance);
    for (const auto& [missing, added] : terms)
      error += squared(missing - parameters.imbalance * added);
    return error;
  }

  double exposed(const MeasuredStep& step, CostParameters parameters, double imbalance) const {
    parameters.imbalance = imbalance;
    return predict(work_, machine_, parameters, step.share).exposed_s;
  }

  const Workload& work_;
  const Machine& machine_;
  std::span<const MeasuredStep> steps_;
  const CostParameters& start_;
  LinksUsed used_;
};

}  // namespace

CostParameters fit(const Workload& work,
                   const Machine& machine,
                   std::span<const MeasuredStep> steps,
                   const CostParameters& start) {
  LOCKSTEP_CHECK(!steps.empty(), ConfigError, "cost model: no measured step to fit");
  bool communicates = false;
  for (const MeasuredStep& step : steps) {
    LOCKSTEP_CHECK(step.exposed_s >= 0 && step.step_s > step.exposed_s && step.share.samples > 0 &&
                       std::isfinite(step.step_s),
                   ConfigError,
                   "cost model: a step of {} s on {} ranks, {} s of it exposed communication, "
                   "cannot be fitted",
                   step.step_s,
                   step.share.ranks,
                   step.exposed_s);
    communicates |= step.share.ranks > 1;
  }
  const ComputeFit compute(work, machine, steps);
  const double contention =
      machine.cores > 1 && !machine.on_gpus && communicates
          ? least_on_grid(1, kMaxContention, [&](double c) { return compute.error(c, start); })
          : start.contention;
  const CostParameters computed = compute.at(contention, start);
  if (!communicates) return computed;

  const ExposedFit exposed(work, machine, steps, start);
  CostParameters best = computed;
  best.overlap = start.overlap;
  double least = exposed.resolve(best);
  constexpr int kOverlaps = 20;
  for (int i = 0; i <= kOverlaps; ++i) {
    CostParameters tried = computed;
    tried.overlap = double(i) / kOverlaps;
    const double error = exposed.resolve(tried);
    if (error < least) {
      least = error;
      best = tried;
    }
  }
  return best;
}

}  // namespace lockstep
