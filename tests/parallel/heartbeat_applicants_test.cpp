// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/heartbeat_applicants.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::watch {
namespace {

constexpr int kRanks[] = {1, 2, 3}, kPlaces = 8;
const Secret kSecret{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

std::string proof(const Secret& secret, int rank) {
  const MessageHeader header{std::uint32_t(Kind::hello), sizeof(Hello)};
  const Hello hello{secret, rank};
  std::string bytes(sizeof header + sizeof hello, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &hello, sizeof hello);
  return bytes;
}

class WatchApplicants : public ::testing::Test {
 protected:
  /// The other end of a new applicant's connection; `number` is this end.
  Descriptor connect(int& number, double now = 0) {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    number = pair[0];
    applicants_.add(Descriptor(pair[0]), now);
    return Descriptor(pair[1]);
  }
  int after(const std::string& bytes) {
    int number = -1;
    const Descriptor end = connect(number);
    EXPECT_EQ(write(end.get(), bytes.data(), bytes.size()), ssize_t(bytes.size()));
    return applicants_.read(number, proved_);
  }
  Applicants applicants_{kSecret, kRanks, kPlaces};
  Descriptor proved_;
};

TEST_F(WatchApplicants, TheSecretProves) {
  EXPECT_EQ(after(proof(kSecret, 3)), 3);
  EXPECT_TRUE(proved_.valid());
  EXPECT_EQ(applicants_.count(), 0u);
}

TEST_F(WatchApplicants, AProofMayComeInPieces) {
  int number = -1;
  const Descriptor end = connect(number);
  const std::string bytes = proof(kSecret, 1);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_EQ(write(end.get(), &bytes[i], 1), 1);
    EXPECT_EQ(applicants_.read(number, proved_), i + 1 == bytes.size() ? 1 : -1);
  }
}

TEST_F(WatchApplicants, WhateverElseComesIsSentAway) {
  Secret other = kSecret;
  other[15] ^= 1;
  std::string huge = proof(kSecret, 1), beat = huge;
  huge[4] = huge[5] = huge[6] = '\xff';
  beat[0] = char(Kind::beat);
  std::mt19937 random(7);
  std::string noise(4096, '\0');
  for (char& c : noise) c = char(random());
  for (const std::string& bytes : {proof(other, 1),
                                   proof(kSecret, 0),
                                   proof(kSecret, 4),
                                   proof(kSecret, -1),
                                   huge,
                                   beat,
                                   noise}) {
    EXPECT_EQ(after(bytes), -1);
    EXPECT_FALSE(proved_.valid());
    EXPECT_EQ(applicants_.count(), 0u) << "closed at once";
  }
}

TEST_F(WatchApplicants, WhoHoldsPlacesLosesThemToNewcomers) {
  std::vector<Descriptor> holders;
  for (int i = 0; i < 3 * kPlaces; ++i) {
    int number = -1;
    holders.push_back(connect(number));
    EXPECT_LE(applicants_.count(), std::size_t(kPlaces));
  }
  EXPECT_EQ(after(proof(kSecret, 2)), 2);
}

TEST_F(WatchApplicants, SilenceHasADeadline) {
  int early = -1, late = -1;
  const Descriptor one = connect(early, 0), other = connect(late, 1);
  applicants_.drop_late(Applicants::kProveSeconds + 0.5);
  EXPECT_EQ(applicants_.count(), 1u);
  const std::string bytes = proof(kSecret, 1);
  ASSERT_EQ(write(other.get(), bytes.data(), bytes.size()), ssize_t(bytes.size()));
  EXPECT_EQ(applicants_.read(late, proved_), 1) << "whose deadline has not come";
}

}  // namespace
}  // namespace lockstep::watch
