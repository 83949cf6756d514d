// SPDX-License-Identifier: Apache-2.0
#include "d5/report/jsonl.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "d5/core/error.hpp"
#include "golden.hpp"
#include "sample_records.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Jsonl, WhatIsWrittenIsRead) {
  TemporaryFolder folder;
  RecordWriter writer((folder / "deep/inside").string());
  EXPECT_EQ(writer.path(), (folder / "deep/inside/records.jsonl").string());
  writer.write(sample_environment());
  writer.write(sample_environment());
  for (const Record& r : sample_table()) writer.write(r);
  for (const std::string& path : {(folder / "deep/inside").string(), writer.path()}) {  // before it is closed
    const RecordFile file = read_records(path);
    EXPECT_EQ(file.records.size(), sample_table().size());
    ASSERT_EQ(file.environments.size(), 1u);
    EXPECT_NE(file.environment("0123456789abcdef"), nullptr);
    EXPECT_EQ(file.environment("other"), nullptr);
    EXPECT_TRUE(file.problems.empty());
  }
  writer.close();
  EXPECT_THAT(error_of([&] { writer.write(sample_environment()); }), HasSubstr("already closed"));
}

TEST(Jsonl, BrokenLinesAreNamedAndTheRestIsUsed) {
  const std::string good = to_line(sample_record("onednn", 64, 1));
  const std::string text =
      good + "\n" + good.substr(0, 100) + "\n\n" + good + "\r\n{\"schema\":\"x\"}\n" + good.substr(0, 200);
  const RecordFile file = parse_records(text, "r/records.jsonl");
  EXPECT_EQ(file.records.size(), 2u);
  ASSERT_EQ(file.problems.size(), 3u);
  EXPECT_THAT(file.problems[0], HasSubstr("r/records.jsonl:2: [record] not JSON"));
  EXPECT_EQ(file.problems[1], "r/records.jsonl:5: [record] 'schema' is \"x\"; legal: d5-record/1");
  EXPECT_THAT(file.problems[2], HasSubstr("r/records.jsonl:6: the last line is cut off: "));
}

TEST(Jsonl, ARecordAfterACutOffLineIsNotGluedToIt) {
  TemporaryFolder folder;
  std::ofstream(folder / "records.jsonl") << to_line(sample_record("onednn", 64, 1)) << "\n{\"schema\":\"d5-rec";
  RecordWriter(folder.text()).write(sample_record("torch", 64, 1));
  const RecordFile file = read_records(folder.text());
  ASSERT_EQ(file.records.size(), 2u);
  EXPECT_EQ(file.records[1].fields["backend"], "torch");
  EXPECT_EQ(file.problems.size(), 1u);
}

TEST(Jsonl, AKilledWriterLeavesWholeLines) {
  TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    RecordWriter writer(folder.text());
    for (int i = 0; i < 20; ++i) writer.write(sample_record("onednn", i + 1, 1));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  const RecordFile file = read_records(folder.text());
  EXPECT_EQ(file.records.size(), 20u);
  EXPECT_TRUE(file.problems.empty());
}

TEST(Jsonl, BadFoldersAreNamed) {
  TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THAT(error_of([&] { RecordWriter((folder / "file").string()); }), HasSubstr((folder / "file").string()));
  EXPECT_THAT(error_of([&] { RecordWriter((folder / "file/below").string()); }), HasSubstr("cannot create the folder"));
  EXPECT_THAT(error_of([] { RecordWriter("/proc/d5"); }), HasSubstr("[records] /proc/d5: cannot create the folder"));
  EXPECT_THAT(error_of([&] { read_records((folder / "none").string()); }),
              HasSubstr("none: cannot read: No such file"));
  EXPECT_THAT(error_of([&] { read_records(folder.text()); }), HasSubstr("records.jsonl: cannot read"));
}

TEST(Jsonl, AFullDeviceIsAnError) {
  TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder / "records.jsonl");
  RecordWriter writer(folder.text());
  EXPECT_THAT(error_of([&] { writer.write(sample_environment()); }),
              HasSubstr("records.jsonl: cannot write: No space left on device"));
}

// A file may not grow past a limit: the same short write and error as on a full disk, for which one need not be root.
TEST(Jsonl, AFileThatMayNotGrowKeepsWhatWasWritten) {
  TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20000, 20000};
    setrlimit(RLIMIT_FSIZE, &limit);
    RecordWriter writer(folder.text());
    const std::string error = error_of([&] {
      for (int i = 0; i < 1000; ++i) writer.write(sample_record("onednn", 64, 1));
    });
    _exit(error.find("File too large; the records before this one are whole") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const RecordFile file = read_records(folder.text());
  EXPECT_EQ(file.records.size(), 20000 / (to_line(sample_record("onednn", 64, 1)).size() + 1));
  EXPECT_TRUE(file.problems.empty());
}

TEST(Jsonl, AFullDiskKeepsWhatWasWritten) {
  TemporaryFolder folder;
  if (mount("tmpfs", folder.text().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "only root can mount a small disk";
  size_t written = 0;
  {
    RecordWriter writer(folder.text());
    const std::string error = error_of([&] {
      for (; written < 1000; ++written) writer.write(sample_record("onednn", 64, 1));
    });
    EXPECT_THAT(error, HasSubstr("No space left on device; the records before this one are whole"));
  }
  EXPECT_GT(written, 10u);
  const RecordFile file = read_records(folder.text());
  EXPECT_EQ(file.records.size(), written);
  EXPECT_TRUE(file.problems.empty());
  umount(folder.text().c_str());
}

}  // namespace
}  // namespace d5
