// SPDX-License-Identifier: Apache-2.0
// What stands between the program and the hardware: a container, a hypervisor, a cloud.
#include <algorithm>
#include <cstring>

#include "d5/measure/environment_parts.hpp"
#include "d5/measure/kernel_files.hpp"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace d5 {
namespace {

using nlohmann::json;

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// The name that a hypervisor gives itself, for example KVMKVMKVM; empty on bare metal.
std::string hypervisor_signature() {
#if defined(__x86_64__) || defined(__i386__)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 31)) return "";
  __cpuid(0x40000000, a, b, c, d);  // above the highest basic leaf, so __get_cpuid would refuse it
  char text[13] = {};
  std::memcpy(text, &b, 4);
  std::memcpy(text + 4, &c, 4);
  std::memcpy(text + 8, &d, 4);
  return text;
#else
  return "";
#endif
}

json hypervisor() {
  const std::string signature = hypervisor_signature();
  const std::pair<const char*, const char*> known[] = {
      {"KVMKVMKVM", "kvm"},  {"Microsoft Hv", "hyper-v"}, {"VMwareVMware", "vmware"},    {"XenVMMXenVMM", "xen"},
      {"TCGTCGTCG", "qemu"}, {"bhyve bhyve ", "bhyve"},   {"VBoxVBoxVBox", "virtualbox"}};
  for (const auto& [text, name] : known)
    if (signature.rfind(text, 0) == 0) return name;
  if (!signature.empty()) return signature;
  const std::string type = first_line("/sys/hypervisor/type");
  return type.empty() ? json() : json(type);
}

}  // namespace

std::string detect_container(const std::filesystem::path& root, const std::map<std::string, std::string>& variables) {
  if (variables.contains("KUBERNETES_SERVICE_HOST")) return "kubernetes";
  if (variables.contains("APPTAINER_CONTAINER") || variables.contains("SINGULARITY_CONTAINER") ||
      std::filesystem::exists(root / ".singularity.d"))
    return "apptainer";
  const std::string groups = read_whole(root / "proc/1/cgroup");
  if (contains(groups, "kubepods")) return "kubernetes";
  if (std::filesystem::exists(root / "run/.containerenv")) return "podman";
  if (std::filesystem::exists(root / ".dockerenv") || contains(groups, "/docker")) return "docker";
  if (contains(groups, "libpod")) return "podman";
  if (contains(groups, "/lxc")) return "lxc";
  // systemd writes the kind into a file that all may read; the first process has it in its environment.
  std::string kind = first_line(root / "run/systemd/container");
  if (kind.empty()) {
    const std::string environment = read_whole(root / "proc/1/environ");
    const auto at = environment.rfind("container=", 0) == 0 ? 0 : environment.find(std::string("\0container=", 11));
    if (at != std::string::npos) {
      const auto value = environment.find('=', at) + 1;
      kind = environment.substr(value, environment.find('\0', value) - value);
    }
  }
  return kind.empty() ? "none" : kind;
}

std::string detect_cloud(const std::map<std::string, std::string>& dmi) {
  const std::pair<const char*, const char*> marks[] = {
      {"Amazon EC2", "aws"},        {"Google", "google"},
      {"OracleCloud", "oracle"},    {"7783-7084-3265-9085-8269-3286-77", "azure"},
      {"Alibaba Cloud", "alibaba"}, {"DigitalOcean", "digitalocean"},
      {"Hetzner", "hetzner"},       {"Scaleway", "scaleway"},
      {"OpenStack", "openstack"}};
  for (const auto& [mark, cloud] : marks)
    for (const auto& [name, value] : dmi)
      if (contains(value, mark)) return cloud;
  return "";
}

json machine_environment() {
  // Serial numbers are left out: they say who owns the machine, not how fast it is.
  std::map<std::string, std::string> dmi;
  for (const char* name : {"sys_vendor", "product_name", "product_version", "board_vendor", "board_name", "bios_vendor",
                           "bios_version", "chassis_asset_tag"})
    if (const std::string value = first_line(std::filesystem::path("/sys/class/dmi/id") / name); !value.empty())
      dmi[name] = value;
  const std::string cloud = detect_cloud(dmi);
  json names = dmi;
  if (cloud.empty()) names.erase("chassis_asset_tag");  // elsewhere an inventory number
  return {{"hypervisor", hypervisor()}, {"cloud", cloud.empty() ? json() : json(cloud)}, {"dmi", names}};
}

}  // namespace d5
