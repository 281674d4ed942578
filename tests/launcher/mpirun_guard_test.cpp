// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/mpirun_guard.h"

#include <csignal>
#include <cstddef>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kUser = 1000, kOther = 1001;

IpAddress address(const char* text) { return parse_ip_address(text).value(); }

TcpSocket connected(const char* local,
                    std::uint16_t local_port,
                    const char* remote,
                    std::uint16_t remote_port,
                    std::uint64_t inode,
                    std::uint32_t user) {
  TcpSocket socket;
  socket.state = TcpSocket::State::connected;
  socket.local = address(local);
  socket.local_port = local_port;
  socket.remote = address(remote);
  socket.remote_port = remote_port;
  socket.inode = inode;
  socket.user = user;
  return socket;
}

/// An mpirun of kUser on 10.0.0.1 that listens on 1024 and has accepted connection 200.
class StrangersAtMpirun : public ::testing::Test {
 protected:
  StrangersAtMpirun() {
    TcpSocket listener;
    listener.state = TcpSocket::State::listening;
    listener.local_port = 1024;
    listener.inode = 100;
    listener.user = kUser;
    table_.push_back(listener);
  }
  std::vector<std::uint64_t> find() const {
    return strangers_at(table_, {{100, 5}, {200, 6}}, kUser, own_);
  }
  std::vector<TcpSocket> table_;
  std::vector<IpAddress> own_{address("10.0.0.1")};
};

TEST_F(StrangersAtMpirun, ProcessesOfTheSameUserAreNone) {
  table_.push_back(connected("10.0.0.1", 1024, "10.0.0.1", 5000, 200, kUser));
  table_.push_back(connected("10.0.0.1", 5000, "10.0.0.1", 1024, 300, kUser));
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(StrangersAtMpirun, AnotherUserOfThisHostIsOne) {
  table_.push_back(connected("127.0.0.1", 1024, "127.0.0.1", 5000, 200, kUser));
  table_.push_back(connected("127.0.0.1", 5000, "127.0.0.1", 1024, 300, kOther));
  EXPECT_THAT(find(), ElementsAre(200));
}

TEST_F(StrangersAtMpirun, AnotherHostIsOne) {
  table_.push_back(connected("10.0.0.1", 1024, "10.1.2.3", 5000, 200, kUser));
  EXPECT_THAT(find(), ElementsAre(200));
}

TEST_F(StrangersAtMpirun, WhereTheOtherEndCannotBeSeenThisHostIsTrusted) {
  table_.push_back(connected("10.0.0.1", 1024, "10.0.0.1", 5000, 200, kUser));
  EXPECT_THAT(find(), IsEmpty());
}

/// Its socket has no owner any more, and what it said last is still to be read.
TEST_F(StrangersAtMpirun, ARankThatHasEndedIsNone) {
  table_.push_back(connected("10.0.0.1", 1024, "10.0.0.1", 5000, 200, kUser));
  table_.push_back(connected("10.0.0.1", 5000, "10.0.0.1", 1024, 0, 0));
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(StrangersAtMpirun, ConnectionsThatMpirunOpenedItselfStay) {
  table_.push_back(connected("10.0.0.1", 6000, "10.1.2.3", 22, 200, kUser));
  EXPECT_THAT(find(), IsEmpty());
}

/// A child that listens on every interface until it is killed, as mpirun does.
class ListeningChild {
 public:
  ListeningChild() {
    int ready[2];
    if (pipe(ready) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      const int listener = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in any{};
      any.sin_family = AF_INET;
      const bool listens = bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any) == 0 &&
                           listen(listener, 1) == 0;
      if (write(ready[1], listens ? "1" : "0", 1) == 1) pause();
      _exit(0);
    }
    char answer = 0;
    listens_ = read(ready[0], &answer, 1) == 1 && answer == '1';
    close(ready[0]);
    close(ready[1]);
  }
  ~ListeningChild() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  pid_t process() const { return process_; }
  bool listens() const { return listens_; }

 private:
  pid_t process_ = -1;
  bool listens_ = false;
};

/// From here on the kernel refuses this process pidfd_getfd(2), as a container's may.
bool refuse_pidfd_getfd() {
  constexpr unsigned kPidfdGetfd = 438;
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kPidfdGetfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(rules), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(MpirunGuardRefused, WarnsOnceWhereTheKernelHandsOverNoSockets) {
  const ListeningChild child;
  ASSERT_TRUE(child.listens());
  // The filter stays with its process: a process for it.
  EXPECT_EXIT(
      {
        if (!refuse_pidfd_getfd()) _exit(2);
        MpirunGuard guard(child.process());
        guard.look();
        const auto warning = guard.refusal();
        if (!warning || guard.refusal()) _exit(3);
        fputs(warning->c_str(), stderr);
        _exit(0);
      },
      ::testing::ExitedWithCode(0),
      "stays open.*pidfd_getfd.*SYS_PTRACE");
}

}  // namespace
}  // namespace lockstep
