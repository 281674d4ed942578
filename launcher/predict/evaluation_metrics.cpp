// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/evaluation_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "core/exec/answers.h"

namespace lockstep {
namespace {

constexpr std::int32_t kTop = 5;
constexpr std::size_t kConfusions = 5;

double share(double part, double all) {
  return all > 0 ? part / all : std::numeric_limits<double>::quiet_NaN();
}

EvaluationMetrics of_classes(const data::Preprocessing& trained,
                             const std::vector<LabelledPredictions::Class>& samples) {
  EvaluationMetrics metrics;
  for (int i = 0; i < trained.samples.classes; ++i)
    metrics.classes.push_back({.name = output_name(trained, std::size_t(i))});
  const auto classes = std::size_t(trained.samples.classes);
  if (trained.samples.classes <= kMaxMatrixClasses)
    metrics.matrix.assign(classes, std::vector<std::int64_t>(classes));
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> confused;
  std::int64_t in_top = 0;
  for (const LabelledPredictions::Class& sample : samples) {
    const bool right = sample.label == sample.predicted;
    ClassMetrics& label = metrics.classes.at(std::size_t(sample.label));
    ++label.samples;
    label.right += right;
    ++metrics.classes.at(std::size_t(sample.predicted)).predicted;
    in_top += sample.likelier < kTop;
    if (!metrics.matrix.empty())
      ++metrics.matrix[std::size_t(sample.label)][std::size_t(sample.predicted)];
    if (!right) ++confused[{sample.label, sample.predicted}];
  }
  if (trained.samples.classes > kTop) metrics.top5 = share(double(in_top), double(samples.size()));
  for (const auto& [pair, count] : confused)
    metrics.confusions.push_back({output_name(trained, std::size_t(pair.first)),
                                  output_name(trained, std::size_t(pair.second)),
                                  count});
  std::ranges::stable_sort(metrics.confusions, std::greater(), &Confusion::samples);
  if (metrics.confusions.size() > kConfusions) metrics.confusions.resize(kConfusions);
  return metrics;
}

EvaluationMetrics of_labels(const data::Preprocessing& trained, const LabelledPredictions& all) {
  EvaluationMetrics metrics;
  const auto labels = std::size_t(trained.samples.target.elems());
  for (std::size_t i = 0; i < labels; ++i)
    metrics.classes.push_back({.name = output_name(trained, i)});
  for (std::size_t i = 0; i < all.targets.size(); ++i) {
    ClassMetrics& label = metrics.classes[i % labels];
    const bool has = all.targets[i] > 0.5f;
    const bool predicted = all.predictions[i] >= 0;  // sigmoid(0) is a half
    label.samples += has;
    label.predicted += predicted;
    label.right += has && predicted;
  }
  return metrics;
}

TargetMetrics of_target(const std::vector<double>& predicted, const std::vector<double>& expected) {
  const auto count = double(expected.size());
  double sum = 0, squares = 0, distances = 0, spread = 0;
  for (const double y : expected) sum += y;
  const double mean = sum / count;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = predicted[i] - expected[i];
    squares += error * error;
    distances += std::abs(error);
    spread += (expected[i] - mean) * (expected[i] - mean);
  }
  // Of equal numbers the mean may be rounded, and the spread is then not 0.
  const bool same = std::ranges::adjacent_find(expected, std::not_equal_to()) == expected.end();
  return {.r2 = 1 - share(squares, same ? 0 : spread),
          .rmse = std::sqrt(squares / count),
          .mae = distances / count};
}

EvaluationMetrics of_targets(const data::Preprocessing& trained, const LabelledPredictions& all) {
  EvaluationMetrics metrics;
  const auto targets = std::size_t(trained.samples.target.elems());
  std::vector<std::vector<double>> predicted(targets), expected(targets);
  for (std::size_t first = 0; first < all.targets.size(); first += targets) {
    const std::vector<double> p =
        answers_of(trained, std::span(all.predictions).subspan(first, targets));
    const std::vector<double> y =
        answers_of(trained, std::span(all.targets).subspan(first, targets));
    for (std::size_t i = 0; i < targets; ++i) {
      predicted[i].push_back(p[i]);
      expected[i].push_back(y[i]);
    }
  }
  for (std::size_t i = 0; i < targets; ++i) {
    metrics.targets.push_back(of_target(predicted[i], expected[i]));
    metrics.targets.back().name = output_name(trained, i);
  }
  return metrics;
}

}  // namespace

double ClassMetrics::recall() const { return share(double(right), double(samples)); }
double ClassMetrics::precision() const { return share(double(right), double(predicted)); }
double ClassMetrics::f1() const { return share(2 * double(right), double(samples + predicted)); }

EvaluationMetrics compute_metrics(const data::Preprocessing& trained,
                                  const LabelledPredictions& predictions) {
  switch (trained.task) {
    case data::Task::classification:
      return of_classes(trained, predictions.classes);
    case data::Task::multi_label:
      return of_labels(trained, predictions);
    case data::Task::regression:
      return of_targets(trained, predictions);
    case data::Task::next_token:
      break;  // loss and accuracy say it all
  }
  return {};
}

}  // namespace lockstep
