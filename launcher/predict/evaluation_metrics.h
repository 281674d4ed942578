// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/predict/labelled_predictions.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep {

/// Of a class against all others, or of one label. Shares of nothing are NaN.
struct ClassMetrics {
  std::string name = {};
  std::int64_t samples = 0;    ///< that are of the class, or have the label
  std::int64_t predicted = 0;  ///< that are said to
  std::int64_t right = 0;      ///< both

  double recall() const;     ///< right / samples; of a class also its accuracy
  double precision() const;  ///< right / predicted
  double f1() const;         ///< 2 right / (samples + predicted)
};

/// A class that is taken for another.
struct Confusion {
  std::string label, predicted;
  std::int64_t samples = 0;
};

/// Of a number that is predicted, in the table's units, with p predicted, y expected and m the mean
/// of y.
struct TargetMetrics {
  std::string name = {};
  double r2 = 0;    ///< 1 - sum((p - y)^2) / sum((y - m)^2); NaN where all y are the same
  double rmse = 0;  ///< sqrt(mean((p - y)^2))
  double mae = 0;   ///< mean(|p - y|)
};

struct EvaluationMetrics {
  /// Share of samples whose class is among the five likeliest; nothing: there are but five.
  std::optional<double> top5;
  std::vector<ClassMetrics> classes;  ///< of classes or labels
  std::vector<Confusion> confusions;  ///< the five most frequent, the most frequent first
  /// [label][predicted], samples; empty: more than kMaxMatrixClasses classes.
  std::vector<std::vector<std::int64_t>> matrix;
  std::vector<TargetMetrics> targets;
};

inline constexpr int kMaxMatrixClasses = 100;

/// Sums are computed in doubles, in the order of the samples.
EvaluationMetrics compute_metrics(const data::Preprocessing& trained,
                                  const LabelledPredictions& predictions);

}  // namespace lockstep
