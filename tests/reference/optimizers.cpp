// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/optimizers.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace lockstep::test {
namespace {

/// What one element's update reads and writes.
struct Element {
  double& param;
  double grad;  ///< scaled
  std::array<double*, kMaxOptimizerState> state;
  double lr, weight_decay;
  std::uint64_t step;
};

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

void update(const Sgd& sgd, const Element& e) {
  const double g = e.grad + e.weight_decay * e.param;
  double direction = g;
  if (sgd.momentum > 0) {
    double& m = *e.state[0];
    m = e.step == 0 ? g : double(sgd.momentum) * m + g;
    direction = sgd.nesterov ? g + double(sgd.momentum) * m : m;
  }
  e.param -= e.lr * direction;
}

/// The step of Adam and of AdamW, which differ in where the decay is.
void adam_step(double beta1, double beta2, double eps, const Element& e, double g) {
  double &m = *e.state[0], &v = *e.state[1];
  m = beta1 * m + (1 - beta1) * g;
  v = beta2 * v + (1 - beta2) * g * g;
  const double t = double(e.step + 1);
  const double correction1 = 1 - std::pow(beta1, t), correction2 = 1 - std::pow(beta2, t);
  e.param -= e.lr / correction1 * m / (std::sqrt(v) / std::sqrt(correction2) + eps);
}

void update(const AdamW& adamw, const Element& e) {
  e.param *= 1 - e.lr * e.weight_decay;
  adam_step(double(adamw.beta1), double(adamw.beta2), double(adamw.eps), e, e.grad);
}

void update(const Adam& adam, const Element& e) {
  const double g = e.grad + e.weight_decay * e.param;
  adam_step(double(adam.beta1), double(adam.beta2), double(adam.eps), e, g);
}

void update(const RmsProp& rmsprop, const Element& e) {
  const double alpha = double(rmsprop.alpha);
  const double g = e.grad + e.weight_decay * e.param;
  double& v = *e.state[0];
  v = alpha * v + (1 - alpha) * g * g;
  double variance = v;
  std::size_t next = 1;
  if (rmsprop.centered) {
    double& a = *e.state[next++];
    a = alpha * a + (1 - alpha) * g;
    variance = std::max(0.0, v - a * a);
  }
  double direction = g / (std::sqrt(variance) + double(rmsprop.eps));
  if (rmsprop.momentum > 0) {
    double& b = *e.state[next];
    b = double(rmsprop.momentum) * b + direction;
    direction = b;
  }
  e.param -= e.lr * direction;
}

void update(const Lion& lion, const Element& e) {
  double& m = *e.state[0];
  const double u = double(lion.beta1) * m + (1 - double(lion.beta1)) * e.grad;
  m = double(lion.beta2) * m + (1 - double(lion.beta2)) * e.grad;
  e.param = e.param * (1 - e.lr * e.weight_decay) - e.lr * (u > 0 ? 1 : u < 0 ? -1 : 0);
}

/// Elementwise: each as if it were alone.
template <typename T>
void update_tensor(const T& optimizer, std::vector<Element>& elements, bool /*is_tensor*/) {
  for (const Element& element : elements) update(optimizer, element);
}

std::vector<double> params_of(const std::vector<Element>& elements) {
  std::vector<double> params;
  for (const Element& e : elements) params.push_back(e.param);
  return params;
}

void update_tensor(const Lars& lars, std::vector<Element>& elements, bool is_tensor) {
  std::vector<double> grads;
  for (const Element& e : elements) grads.push_back(e.grad);
  const double weights = norm_of(params_of(elements)), gradient = norm_of(grads);
  double ratio = 1;
  if (is_tensor && weights > 0 && gradient > 0)
    ratio =
        double(lars.trust_coefficient) * weights / (gradient + elements[0].weight_decay * weights);
  for (const Element& e : elements) {
    double& m = *e.state[0];
    m = double(lars.momentum) * m + e.lr * ratio * (e.grad + e.weight_decay * e.param);
    e.param -= m;
  }
}

void update_tensor(const Lamb& lamb, std::vector<Element>& elements, bool is_tensor) {
  const double beta1 = double(lamb.beta1), beta2 = double(lamb.beta2);
  std::vector<double> directions;
  for (const Element& e : elements) {
    double &m = *e.state[0], &v = *e.state[1];
    m = beta1 * m + (1 - beta1) * e.grad;
    v = beta2 * v + (1 - beta2) * e.grad * e.grad;
    const double t = double(e.step + 1);
    directions.push_back(m / (1 - std::pow(beta1, t)) /
                             (std::sqrt(v / (1 - std::pow(beta2, t))) + double(lamb.eps)) +
                         e.weight_decay * e.param);
  }
  const double weights = norm_of(params_of(elements)), direction = norm_of(directions);
  const double ratio = is_tensor && weights > 0 && direction > 0 ? weights / direction : 1;
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i].param -= elements[i].lr * ratio * directions[i];
}

void update_tensor(const Muon& muon, std::vector<Element>& elements, bool is_tensor) {
  std::vector<double> directions;
  for (const Element& e : elements) {
    if (!is_tensor) {
      update(AdamW{.beta1 = muon.beta1, .beta2 = muon.beta2, .eps = muon.eps}, e);
      continue;
    }
    double& m = *e.state[0];
    m = double(muon.momentum) * m + e.grad;
    directions.push_back(e.grad + double(muon.momentum) * m);
  }
  const double norm = norm_of(directions) + Muon::kNormEps;
  for (std::size_t i = 0; i < directions.size(); ++i) {
    elements[i].param *= 1 - elements[i].lr * elements[i].weight_decay;
    elements[i].param -= elements[i].lr * directions[i] / norm;
  }
}

void update_tensor(const NorMuon& normuon, std::vector<Element>& elements, bool is_tensor) {
  if (!is_tensor) {
    const AdamW adamw{.beta1 = normuon.beta1, .beta2 = normuon.beta2, .eps = normuon.eps};
    for (const Element& e : elements) update(adamw, e);
    return;
  }
  std::vector<double> directions;
  for (const Element& e : elements) {
    double& m = *e.state[0];
    m = double(normuon.momentum) * m + e.grad;
    directions.push_back(e.grad + double(normuon.momentum) * m);
  }
  const double norm = norm_of(directions) + NorMuon::kNormEps;
  for (double& direction : directions) direction /= norm;
  const std::size_t columns = elements.size() / std::size_t(kReferenceRows);
  for (std::size_t begin = 0; begin < directions.size(); begin += columns) {
    double squares = 0;
    for (std::size_t i = begin; i < begin + columns; ++i) squares += directions[i] * directions[i];
    for (std::size_t i = begin; i < begin + columns; ++i) {
      double& v = *elements[i].state[1];
      v = double(normuon.beta2) * v + (1 - double(normuon.beta2)) * squares / double(columns);
      directions[i] /= std::sqrt(v) + double(normuon.eps);
    }
  }
  const double scale = NorMuon::kUpdateScale * std::sqrt(double(elements.size())) /
                       (norm_of(directions) + NorMuon::kNormEps);
  for (std::size_t i = 0; i < directions.size(); ++i) {
    elements[i].param *= 1 - elements[i].lr * elements[i].weight_decay;
    elements[i].param -= elements[i].lr * scale * directions[i];
  }
}

}  // namespace

void optimizer_reference(ReferenceState& state,
                         const std::vector<double>& grads,
                         const OptimizerUpdate& u,
                         const std::vector<FlatRange>& ranges) {
  std::map<std::int32_t, std::vector<Element>> tensors;  // -1: elements of none
  for (const FlatRange& range : ranges)
    for (std::int64_t j = range.offset; j < range.offset + range.elems; ++j) {
      const std::size_t i = std::size_t(j);
      Element element{.param = state.params[i],
                      .grad = grads[i] * double(u.grad_scale),
                      .state = {},
                      .lr = double(u.lr) * double(range.lr_scale),
                      .weight_decay = double(range.weight_decay),
                      .step = u.step};
      for (std::size_t s = 0; s < state.state.size(); ++s)
        if (!state.state[s].empty()) element.state[s] = &state.state[s][i];
      tensors[range.tensor].push_back(element);
    }
  for (auto& [tensor, elements] : tensors)
    std::visit([&](const auto& optimizer) { update_tensor(optimizer, elements, tensor >= 0); },
               u.optimizer);
}

}  // namespace lockstep::test
