// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/stop_agreement.h"

#include <algorithm>
#include <exception>

namespace lockstep {
namespace {

constexpr std::size_t kOwnFloats = 2;

}  // namespace

double StopAgreement::seconds_between_messages(int ranks) {
  return std::clamp(kSeconds * ranks / kRanks, kSeconds, kMaxSeconds);
}

StopAgreement::StopAgreement(Communicator& world,
                             std::function<bool()> asked,
                             std::vector<MessagePart*> parts)
    : asked_(std::move(asked)),
      parts_(std::move(parts)),
      seconds_(seconds_between_messages(world.size())),
      sent_(MonotonicClock::now()) {
  if (world.size() == 1) return;
  std::size_t floats = kOwnFloats;
  for (const MessagePart* part : parts_) floats += std::size_t(part->floats());
  communicator_ = world.split(0, world.rank());
  communicator_->reserve_requests(1);
  message_.resize(floats);
}

// While an exception is in flight the request is not waited for, and MPI may still write here.
StopAgreement::~StopAgreement() {
  if (request_ && std::uncaught_exceptions() > 0) new std::vector<float>(std::move(message_));
}

bool StopAgreement::poll(bool must_send) {
  if (stopped_) return true;
  if (!communicator_) return stopped_ = asked_ && asked_();
  if (++calls_ < stride_ && !must_send) return false;
  if (request_ && receive()) return stopped_ = true;
  send();
  calls_ = 0;
  return false;
}

void StopAgreement::send() {
  const auto now = MonotonicClock::now();
  const double call = std::chrono::duration<double>(now - sent_).count() / calls_;
  sent_ = now;
  std::ranges::fill(message_, 0.0f);
  message_[0] = asked_ && asked_() ? 1.0f : 0.0f;
  // At most twice as many as before, since a short time may be the exception: between the end of a
  // step and the evaluation after it.
  const double most = std::min(2 * stride_, kMaxCalls);
  if (communicator_->rank() == 0)
    message_[1] = float(std::clamp(seconds_ / std::max(call, 1e-9), 1.0, most));
  float* own = message_.data() + kOwnFloats;
  for (MessagePart* part : parts_) {
    part->write(own);
    own += part->floats();
  }
  request_ = communicator_->start_all_reduce(message_.data(), std::int64_t(message_.size()));
}

bool StopAgreement::receive() {
  request_->wait();
  request_.reset();
  stride_ = int(message_[1]);
  const float* sums = message_.data() + kOwnFloats;
  for (MessagePart* part : parts_) {
    part->read(sums);
    sums += part->floats();
  }
  return message_[0] != 0;
}

}  // namespace lockstep
