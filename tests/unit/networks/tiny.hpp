// SPDX-License-Identifier: Apache-2.0
// Every network at a size that plain loops run in a fraction of a second.
#pragma once

#include <map>
#include <string>

#include "d5/networks/network.hpp"

namespace d5 {

inline const std::map<std::string, Attributes>& tiny_networks() {
  static const Attributes image{{"classes", 3}, {"size", 32}, {"width", 4}};
  static const Attributes cifar{{"classes", 3}, {"size", 8}, {"width", 2}};
  static const Attributes words{{"layers", 2}, {"width", 8},       {"heads", 2},
                                {"length", 5}, {"vocabulary", 11}, {"positions", 7}};
  static const auto with = [](Attributes values, const std::string& name, Value value) {
    values.set(name, std::move(value));
    return values;
  };
  static const std::map<std::string, Attributes> all{
      {"mlp", {{"features", 7}, {"width", 5}, {"classes", 3}}},
      {"lenet", {{"classes", 3}, {"size", 16}}},
      {"alexnet", {{"classes", 3}, {"size", 63}, {"width", 8}, {"divide", 16}}},
      {"vgg-16", {{"classes", 3}, {"size", 32}, {"width", 2}, {"hidden", 8}}},
      {"inception-v3", {{"classes", 3}, {"size", 75}, {"divide", 16}}},
      {"resnet-18", image},
      {"resnet-34", image},
      {"resnet-50", image},
      {"resnet-101", image},
      {"resnet-152", image},
      {"resnet-20", cifar},
      {"resnet-32", cifar},
      {"resnet-44", cifar},
      {"resnet-56", with(cifar, "shortcut", "B")},
      {"resnet-110", cifar},
      {"wide-resnet-28-10", {{"classes", 3}, {"size", 8}, {"depth", 10}, {"widen", 2}, {"width", 2}}},
      {"squeezenet", {{"classes", 3}, {"size", 32}, {"divide", 16}}},
      {"mobilenet-v2", {{"classes", 3}, {"size", 32}, {"width", 0.1}}},
      {"densenet-121", {{"classes", 3}, {"size", 32}, {"growth", 2}}},
      {"unet", {{"size", 8}, {"width", 2}, {"depth", 2}}},
      {"tiramisu",
       {{"height", 8},
        {"width", 12},
        {"channels", 2},
        {"blocks", "1x2x2"},
        {"growth", 2},
        {"filters", 3},
        {"filter", 3}}},
      {"deeplab-v3-plus", {{"height", 16}, {"width", 24}, {"channels", 2}, {"maps", 4}}},
      {"hep-cnn", {{"size", 16}, {"width", 3}}},
      {"cosmoflow", {{"size", 104}, {"width", 1}, {"hidden", 8}}},
      {"dcgan-generator", {{"size", 16}, {"width", 2}, {"depth", 3}, {"noise", 5}}},
      {"dcgan-discriminator", {{"size", 16}, {"width", 2}, {"depth", 3}}},
      {"lstm-lm", {{"vocabulary", 11}, {"length", 5}, {"width", 4}}},
      {"transformer-encoder", with(words, "hidden", 12)},
      {"transformer-decoder", words},
      {"vit", {{"classes", 3}, {"size", 12}, {"patch", 4}, {"layers", 2}, {"width", 8}, {"heads", 2}, {"hidden", 12}}},
  };
  return all;
}

}  // namespace d5
