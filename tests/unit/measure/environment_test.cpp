// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/environment.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "d5/core/error.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/disk_footprint.hpp"
#include "d5/measure/environment_parts.hpp"
#include "d5/measure/machine_file.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class InFolder : public testing::Test {
 protected:
  InFolder() : folder_(fs::temp_directory_path() / ("d5-environment-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~InFolder() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  fs::path folder_;
};

TEST(Environment, HasWhatARecordNeeds) {
  const auto e = capture_environment({{"reference", {{"version", "1"}}}});
  EXPECT_FALSE(e["cpu"]["model"].get<std::string>().empty());
  EXPECT_GE(e["cpu"]["logical"], e["cpu"]["usable"]);
  EXPECT_EQ(e["cpu"]["usable"], usable_cores());
  for (const char* key : {"cores", "smt", "isa", "caches", "numa", "governor", "mhz_max"})
    EXPECT_TRUE(e["cpu"].contains(key)) << key;
  EXPECT_GT(e["memory"]["total_bytes"], 1 << 20);
  EXPECT_EQ(e["memory"]["page_bytes"], sysconf(_SC_PAGESIZE));
  EXPECT_FALSE(e["os"]["kernel"].get<std::string>().empty());
  ASSERT_TRUE(e["gpus"].is_array() && e["now"]["gpus"].is_array());
  for (const auto& gpu : e["gpus"]) EXPECT_GT(gpu["memory_bytes"], 1 << 20) << gpu["name"];
  EXPECT_TRUE(e["container"].is_string());
  EXPECT_TRUE(e["machine"].contains("cloud") && e["machine"].contains("hypervisor"));
  for (const char* key : {"version", "type", "compiler", "flags", "revision"})
    EXPECT_FALSE(e["build"][key].get<std::string>().empty() && std::string(key) != "flags") << key;
  for (const char* key : {"fmt", "nlohmann_json", "tomlplusplus"})
    EXPECT_THAT(e["libraries"][key].get<std::string>(), testing::ContainsRegex("^[0-9]+[.][0-9]+[.][0-9]+$"));
  EXPECT_EQ(e["backends"]["reference"]["version"], "1");
  EXPECT_GT(e["now"]["unix_seconds"], 1700000000);
}

TEST(Environment, HasNoHostName) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const auto facts = capture_environment().flatten();
  for (const auto& [key, value] : facts.items()) EXPECT_NE(value, std::string(host)) << key;
}

TEST(Environment, TheHashHoldsWhatLasts) {
  auto first = capture_environment(), second = capture_environment();
  EXPECT_EQ(environment_hash(first), environment_hash(second));
  EXPECT_EQ(environment_hash(first).size(), 16u);
  second["now"]["load"] = "other";
  EXPECT_EQ(environment_hash(first), environment_hash(second));
  second["os"]["kernel"] = "other";
  EXPECT_NE(environment_hash(first), environment_hash(second));
  // FNV-1a of "{}", computed with a separate Python program.
  EXPECT_EQ(environment_hash(nlohmann::json::object()), "08f44b07b5901a25");
}

TEST_F(InFolder, ContainersAreKnownByTheirTraces) {
  EXPECT_EQ(detect_container(folder_, {}), "none");
  EXPECT_EQ(detect_container(folder_, {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}), "kubernetes");
  EXPECT_EQ(detect_container(folder_, {{"APPTAINER_CONTAINER", "x.sif"}}), "apptainer");
  write("proc/1/environ", std::string("PATH=/bin\0container=lxc\0HOME=/", 30));
  EXPECT_EQ(detect_container(folder_, {}), "lxc");
  write("run/systemd/container", "systemd-nspawn\n");
  EXPECT_EQ(detect_container(folder_, {}), "systemd-nspawn");
  write("proc/1/cgroup", "0::/docker/0123456789abcdef\n");
  EXPECT_EQ(detect_container(folder_, {}), "docker");
  write("run/.containerenv", "");
  EXPECT_EQ(detect_container(folder_, {}), "podman");
  write("proc/1/cgroup", "0::/kubepods/besteffort/pod1\n");
  EXPECT_EQ(detect_container(folder_, {}), "kubernetes");
}

TEST(Environment, CloudsAreKnownByTheirFirmware) {
  EXPECT_EQ(detect_cloud({{"sys_vendor", "Amazon EC2"}, {"product_name", "c7i.large"}}), "aws");
  EXPECT_EQ(detect_cloud({{"product_name", "Google Compute Engine"}}), "google");
  EXPECT_EQ(detect_cloud(
                {{"sys_vendor", "Microsoft Corporation"}, {"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"}}),
            "azure");
  EXPECT_EQ(detect_cloud({{"sys_vendor", "Microsoft Corporation"}, {"product_name", "Surface"}}), "");
  EXPECT_EQ(detect_cloud({{"sys_vendor", "Dell Inc."}}), "");
}

TEST_F(InFolder, MachineFileIsRead) {
  const auto path = write("machine.toml",
                          "name = \"node17\"\nprice_per_hour = 1.25\ncurrency = \"EUR\"\nyear = 2023\n"
                          "tdp_watts = 350\nnote = \"lid open\"\n");
  const auto facts = read_machine_file(path);
  EXPECT_EQ(facts["name"], "node17");
  EXPECT_EQ(facts["price_per_hour"], 1.25);
  EXPECT_EQ(facts["year"], 2023);
  EXPECT_EQ(facts["tdp_watts"], 350);
  EXPECT_EQ(facts.size(), 6u);

  setenv("D5_MACHINE", path.c_str(), 1);
  EXPECT_EQ(capture_environment()["owner"], facts);
  setenv("D5_MACHINE", "/nowhere/machine.toml", 1);
  EXPECT_THROW(find_machine_file(), UsageError);
  unsetenv("D5_MACHINE");
}

TEST_F(InFolder, MachineFileErrorsNameThePlaceAndTheNearestKey) {
  const auto message = [this](const std::string& text) {
    try {
      read_machine_file(write("m.toml", text));
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message("name = \"a\"\n  pirce_per_hour = 1\n"),
              AllOf(HasSubstr("m.toml:2:3"), HasSubstr("pirce_per_hour"), HasSubstr("did you mean 'price_per_hour'")));
  EXPECT_THAT(message("year = \"old\""), AllOf(HasSubstr("m.toml:1:8"), HasSubstr("1970 to 2100")));
  EXPECT_THAT(message("tdp_watts = -3"), AllOf(HasSubstr("m.toml:1:13"), HasSubstr("number >= 0")));
  EXPECT_THAT(message("price_per_hour = true"), HasSubstr("number >= 0"));
  EXPECT_THAT(message("name = 5"), HasSubstr("text in quotes"));
  EXPECT_THAT(message("name = \"a\"\nyear = = 3\n"), HasSubstr("m.toml:2:"));
}

TEST_F(InFolder, FootprintOfAFolderAndAFile) {
  write("package/a.bin", std::string(1000, 'a'));
  write("package/deep/b.bin", std::string(234, 'b'));
  EXPECT_EQ(disk_footprint(folder_ / "package")["total_bytes"], 1234);
  const auto file = disk_footprint(folder_ / "package/a.bin");
  EXPECT_EQ(file["bytes"], 1000);
  EXPECT_TRUE(file["libraries"].empty());  // not loaded
  EXPECT_THROW(disk_footprint(folder_ / "nothing"), Error);
}

TEST(DiskFootprint, CountsTheLibrariesThatAModuleBrings) {
  void* module = dlopen("libssl.so.3", RTLD_LAZY);  // needs libcrypto, which nothing here does
  if (!module) GTEST_SKIP() << "no libssl.so.3 to look at";
  Dl_info info{};
  ASSERT_TRUE(dladdr(dlsym(module, "SSL_new"), &info));
  const auto footprint = disk_footprint(info.dli_fname);
  // Some distributions' libcrypto brings compression libraries of its own; those count, too.
  bool crypto = false;
  uintmax_t bytes = fs::file_size(info.dli_fname);
  for (const auto& library : footprint["libraries"]) {
    const std::string path = library["path"].get<std::string>();
    crypto = crypto || path.find("libcrypto") != std::string::npos;
    EXPECT_EQ(path.find("libc.so"), std::string::npos) << "the program itself needs it";
    EXPECT_EQ(library["bytes"].get<uintmax_t>(), fs::file_size(path));
    bytes += fs::file_size(path);
  }
  EXPECT_TRUE(crypto) << footprint;
  EXPECT_EQ(footprint["total_bytes"].get<uintmax_t>(), bytes);
  dlclose(module);
}

}  // namespace
}  // namespace d5
