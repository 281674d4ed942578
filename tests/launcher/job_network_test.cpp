// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/job_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::string> texts(const JobNetwork& network) {
  std::vector<std::string> result;
  for (const IpAddress& address : network.addresses) result.push_back(to_string(address));
  return result;
}

TEST(JobNetwork, AddressesOfAllHostsEachOnce) {
  const std::vector<std::string> ranks{"m1/net:[1] 10.0.0.1 172.17.0.1",
                                       "m1/net:[1] 10.0.0.1",
                                       "m2/net:[1] 10.0.0.2 172.17.0.1 2001:db8::2"};
  const JobNetwork network = job_network(ranks);
  EXPECT_FALSE(network.one_host);
  EXPECT_THAT(texts(network),
              UnorderedElementsAre("10.0.0.1", "10.0.0.2", "172.17.0.1", "2001:db8::2"));
}

TEST(JobNetwork, OneHostIsWhereAllShareLoopback) {
  using Ranks = std::vector<std::string>;
  EXPECT_TRUE(job_network(Ranks{"m1/net:[1]", "m1/net:[1]"}).one_host);
  EXPECT_FALSE(job_network(Ranks{"m1/net:[1]", "m1/net:[2]"}).one_host) << "two containers";
  EXPECT_FALSE(job_network(Ranks{"-", "-"}).one_host) << "nobody knows";
  const std::string own = describe_own_network();
  EXPECT_TRUE(job_network(Ranks{own, own}).one_host);
}

TEST(JobNetwork, APortThatIsOpenOnOneHostIsNamedWithWhatToSet) {
  OwnListener listener;
  listener.socket.state = TcpSocket::State::listening;
  listener.socket.local = ipv4_loopback();
  listener.socket.local_port = 1024;
  const std::vector<OwnListener> closed{listener};
  EXPECT_EQ(close_to_strangers(closed, {{}, true}, "self,tcp"), "") << "others do not reach it";
  listener.socket.local = {};
  const std::vector<OwnListener> open{listener};
  const std::string said = close_to_strangers(open, {{}, true}, "self,tcp");
  for (const char* word : {"1024", "OMPI_MCA_btl=self,tcp", "^tcp,ofi"})
    EXPECT_THAT(said, HasSubstr(word));
  EXPECT_THAT(close_to_strangers(open, {{}, false}, ""), HasSubstr("1024"))
      << "this descriptor cannot be guarded";
}

}  // namespace
}  // namespace lockstep
