// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/regrowth.h"

namespace lockstep {

void Regrowth::begin(int ranks, double now) {
  all_ = left_ = ranks;
  began_ = since_ = now;
  missed_ = 0;
  start_s_.reset();
}

void Regrowth::note_training(double now) {
  if (!start_s_) start_s_ = now - began_;
}

void Regrowth::note_survivors(int ranks, double now) {
  note_training(now);
  missed_ = missed(now);
  since_ = now;
  left_ = ranks;
}

double Regrowth::missed(double now) const {
  return missed_ + (now - since_) * (all_ - left_) / all_;
}

bool Regrowth::is_due(double now) const {
  return left_ < all_ && start_s_ && missed(now) >= *start_s_;
}

}  // namespace lockstep
