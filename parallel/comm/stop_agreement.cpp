// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/stop_agreement.h"

#include <algorithm>
#include <exception>

namespace lockstep {
namespace {

constexpr int kOwnFloats = 2;

}  // namespace

StopAgreement::StopAgreement(Communicator& world,
                             std::function<bool()> asked,
                             std::vector<MessagePart*> parts)
    : asked_(std::move(asked)),
      parts_(std::move(parts)),
      floats_(kOwnFloats),
      sent_(MonotonicClock::now()) {
  if (world.size() == 1) return;
  for (const MessagePart* part : parts_) floats_ += part->floats();
  communicator_ = world.split(0, world.rank());
  communicator_->reserve_requests(1);
  messages_.resize(std::size_t(floats_) * std::size_t(world.size()));
  for (int r = 0; r < world.size(); ++r) blocks_.push_back({std::int64_t(r) * floats_, floats_});
}

// While an exception is in flight the request is not waited for, and MPI may still write here.
StopAgreement::~StopAgreement() {
  if (request_ && std::uncaught_exceptions() > 0) new std::vector<float>(std::move(messages_));
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
  float* own = messages_.data() + std::ptrdiff_t(communicator_->rank()) * floats_;
  own[0] = asked_ && asked_() ? 1.0f : 0.0f;
  // At most twice as many as before, since a short time may be the exception: between the end of a
  // step and the evaluation after it.
  const double most = std::min(2 * stride_, kMaxCalls);
  own[1] = float(std::clamp(kSeconds / std::max(call, 1e-9), 1.0, most));
  own += kOwnFloats;
  for (MessagePart* part : parts_) {
    part->write(own);
    own += part->floats();
  }
  request_ = communicator_->start_all_gather(messages_.data(), blocks_);
}

bool StopAgreement::receive() {
  request_->wait();
  request_.reset();
  stride_ = int(messages_[1]);
  const float* first = messages_.data() + kOwnFloats;
  for (MessagePart* part : parts_) {
    part->read({first, floats_, communicator_->size()});
    first += part->floats();
  }
  for (std::size_t r = 0; r < messages_.size(); r += std::size_t(floats_))
    if (messages_[r] != 0) return true;
  return false;
}

}  // namespace lockstep
