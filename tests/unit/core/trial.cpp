// SPDX-License-Identifier: Apache-2.0
#include "d5/core/trial.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>

namespace d5 {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Trial, TheAnswerComesBackAndNothingElseDoes) {
  int seen = 0;
  testing::internal::CaptureStdout();
  EXPECT_EQ(try_apart("[Mine]",
                      [&](const Calling& calling) {
                        calling("infer");
                        seen = 1;
                        std::cout << "printed by a user" << std::endl;
                        return std::string(100000, 'x');
                      }),
            std::string(100000, 'x'));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(seen, 0);  // it ran in a copy
}

TEST(Trial, WhateverEndsTheCopyIsNamedWithTheCall) {
  const auto trial = [](auto act) {
    return [act] {
      try_apart(
          "[Mine]",
          [&](const Calling& calling) {
            calling("describe");
            calling("infer");
            act();
            return std::string();
          },
          0.5);
    };
  };
  EXPECT_THAT(trial([] { std::raise(SIGKILL); }), ThrowsMessage<TrialFailed>("[Mine] infer crashes: SIGKILL (Killed)"));
  EXPECT_THAT(trial([] { std::_Exit(3); }), ThrowsMessage<TrialFailed>("[Mine] infer ends the process (status 3)"));
  EXPECT_THAT(trial([] { pause(); }), ThrowsMessage<TrialFailed>("[Mine] infer does not end within 0.5 s"));
  EXPECT_THAT(trial([] { throw std::out_of_range("at(7)"); }),
              ThrowsMessage<TrialFailed>("[Mine] infer throws: at(7)"));
  EXPECT_THAT(trial([] { throw 7; }), ThrowsMessage<TrialFailed>(HasSubstr("an exception of an unknown type")));
  EXPECT_THAT(trial([] { throw Error("[Mine] needs two axes"); }), ThrowsMessage<Error>("[Mine] needs two axes"));
}

}  // namespace
}  // namespace d5
