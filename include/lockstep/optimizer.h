// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "lockstep/optimizers/adam.h"
#include "lockstep/optimizers/adamw.h"
#include "lockstep/optimizers/lamb.h"
#include "lockstep/optimizers/lars.h"
#include "lockstep/optimizers/lion.h"
#include "lockstep/optimizers/muon.h"
#include "lockstep/optimizers/normuon.h"
#include "lockstep/optimizers/rmsprop.h"
#include "lockstep/optimizers/sgd.h"

/// Every optimizer: OPTIMIZER(class, name). Each line gives an alternative of Optimizer, and its
/// name on the command line and in checkpoints.
#define LOCKSTEP_OPTIMIZERS(OPTIMIZER) \
  OPTIMIZER(Sgd, sgd)                  \
  OPTIMIZER(AdamW, adamw)              \
  OPTIMIZER(Adam, adam)                \
  OPTIMIZER(RmsProp, rmsprop)          \
  OPTIMIZER(Lion, lion)                \
  OPTIMIZER(Lars, lars)                \
  OPTIMIZER(Lamb, lamb)                \
  OPTIMIZER(Muon, muon)                \
  OPTIMIZER(NorMuon, normuon)

namespace lockstep {
namespace detail {
/// The list begins with a comma.
template <typename /*nothing*/, typename... Types>
using VariantOf = std::variant<Types...>;
}  // namespace detail

/// std::variant<Sgd, AdamW, ...>: how gradients change the weights. Each alternative is a struct of
/// hyper-parameters with their defaults:
///
///   options.optimizer = lockstep::AdamW{.lr = 3e-4f, .weight_decay = 0.1f};
#define LOCKSTEP_ALTERNATIVE(Type, name) , Type
using Optimizer = detail::VariantOf<void LOCKSTEP_OPTIMIZERS(LOCKSTEP_ALTERNATIVE)>;
#undef LOCKSTEP_ALTERNATIVE

/// "sgd", "adamw", ... in the order of the list, which is that of the variant.
std::span<const std::string_view> optimizer_names();
/// The optimizer of that name with its defaults. Throws ConfigError with the names there are.
Optimizer make_optimizer(std::string_view name);
std::string_view name_of(const Optimizer& optimizer);

/// Throws ConfigError naming the hyper-parameter, its value and the range: learning rate or decay
/// negative or not finite, momentum or betas outside [0, 1), Nesterov without momentum.
void validate(const Optimizer& optimizer);

float learning_rate(const Optimizer& optimizer);
float weight_decay(const Optimizer& optimizer);

/// "sgd lr=0.1 momentum=0.9 nesterov weight_decay=0.0005": what ranks compare and checkpoints hold.
std::string to_string(const Optimizer& optimizer);

}  // namespace lockstep
