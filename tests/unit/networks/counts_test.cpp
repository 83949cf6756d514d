// SPDX-License-Identifier: Apache-2.0
// Networks are what their papers say: numbers of parameters and of multiply-adds against published ones.
#include <gtest/gtest.h>

#include <cstring>

#include "d5/networks/network.hpp"
#include "tiny.hpp"

namespace d5 {
namespace {

NetworkFigures of(const std::string& name, const Attributes& values = {}) {
  return figures(build_network(name, values, 1, DType::f32, Mode::inference));
}

struct Published {
  std::string name;
  Attributes values;
  Index parameters;
  double giga = 0;  // multiply-adds in 1e9, to three decimals; 0: not published
};

// torchvision 0.20, documentation of each model: num_params and GFLOPS (which are multiply-adds).
TEST(Counts, Torchvision) {
  const std::vector<Published> all{
      {"alexnet", {}, 61100840, 0.714},
      {"vgg-16", {}, 138357544, 15.470},
      {"resnet-18", {}, 11689512, 1.814},
      {"resnet-34", {}, 21797672, 3.664},
      {"resnet-50", {}, 25557032, 4.089},
      {"resnet-101", {}, 44549160, 7.801},
      {"resnet-152", {}, 60192808, 11.514},
      {"squeezenet", {}, 1248424, 0.819},
      {"squeezenet", {{"version", 1.1}}, 1235496, 0.349},
      {"mobilenet-v2", {}, 3504872, 0.301},
      {"densenet-121", {}, 7978856, 2.834},
      {"inception-v3", {{"auxiliary", true}}, 27161264},
      {"vit", {}, 86567656, 17.564},
  };
  for (const Published& one : all) {
    const NetworkFigures seen = of(one.name, one.values);
    EXPECT_EQ(seen.parameters, one.parameters) << one.name;
    if (one.giga > 0) {
      EXPECT_NEAR(seen.multiply_adds * 1e-9, one.giga, 0.0005) << one.name;
    }
  }
  // Its 5.713 is without the auxiliary classifier, its number of parameters with it.
  EXPECT_NEAR(of("inception-v3").multiply_adds * 1e-9, 5.713, 0.0005);
}

TEST(Counts, Papers) {
  const std::vector<Published> all{
      // Krizhevsky et al. 2012: 60 million; to the unit in Caffe's copy, and without groups.
      {"alexnet", {{"variant", 2012}}, 60965224},
      {"alexnet", {{"variant", 2012}, {"groups", 1}}, 62378344},
      // Szegedy et al. 2016; Keras Applications have 23,817,352, without the 17,216 scales of normalisation.
      {"inception-v3", {}, 23834568},
      // He et al. 2016, table 6: 0.27, 0.46, 0.66, 0.85 and 1.7 million; to the unit in Idelbayev's
      // pytorch_resnet_cifar10 (option A), Keras' example for option B.
      {"resnet-20", {}, 269722},
      {"resnet-20", {{"shortcut", "B"}}, 272474},
      {"resnet-32", {}, 464154},
      {"resnet-44", {}, 658586},
      {"resnet-56", {}, 853018},
      {"resnet-110", {}, 1727962},
      // Zagoruyko and Komodakis 2016: 36.5 million.
      {"wide-resnet-28-10", {}, 36479194},
      // LeNet-5 with a full second convolution, as in Dive into Deep Learning, section 7.6.
      {"lenet", {}, 61706},
      // Ronneberger et al. 2015 give no number; 31,030,593 with one class is that of the common Keras port.
      {"unet", {{"classes", 1}}, 31030593},
      // Kurth et al. 2017: 2.3 MiB of parameters.
      {"hep-cnn", {}, 594178},
      // Mathuriya et al. 2018; "# Parameters = 7041443" in the logs of the authors' program.
      {"cosmoflow", {}, 7041443},
      // Devlin et al. 2019: 110 million; to the unit in Hugging Face's bert-base-uncased, bare and with two classes.
      {"transformer-encoder", {{"classes", 0}}, 109482240},
      {"transformer-encoder", {}, 109483778},
      // Radford et al. 2019: 124 million (corrected by the authors from 117); to the unit in Hugging Face's gpt2.
      {"transformer-decoder", {}, 124439808},
  };
  for (const Published& one : all) EXPECT_EQ(of(one.name, one.values).parameters, one.parameters) << one.name;
  EXPECT_NEAR(static_cast<double>(of("hep-cnn").parameters) * 4 / (1 << 20), 2.3, 0.05);
}

// Zaremba et al. 2014 give sizes of layers; Merity et al. 2018, table 1, count 20 million (medium) and 66 (large).
TEST(Counts, LanguageModelOfLstm) {
  EXPECT_NEAR(static_cast<double>(of("lstm-lm").parameters) * 1e-6, 20, 0.5);
  EXPECT_NEAR(static_cast<double>(of("lstm-lm", {{"width", 1500}}).parameters) * 1e-6, 66, 0.5);
}

// Kurth et al. 2018: 4.188 TFLOP for a sample of Tiramisu's training step, which is three times the forward pass, an
// addition and a multiplication each.
TEST(Counts, ClimateTiramisu) { EXPECT_NEAR(of("tiramisu").multiply_adds * 6e-12, 4.188, 0.0005); }

// By hand from the authors' program (github.com/MustafaMustafa/cosmoGAN): a linear layer with bias, 5x5 with biases,
// two numbers for each normalised map.
TEST(Counts, CosmoGan) {
  const Index maps[] = {512, 256, 128, 64, 1};
  Index generator = (64 + 1) * 512 * 16 * 16 + 2 * 512;
  for (size_t i = 1; i < 5; ++i) generator += 25 * maps[i - 1] * maps[i] + maps[i] + (i < 4 ? 2 * maps[i] : 0);
  EXPECT_EQ(of("dcgan-generator").parameters, generator);
  Index discriminator = 25 * 64 + 64 + 512 * 16 * 16 + 1;
  for (size_t i = 3; i > 0; --i) discriminator += 25 * maps[i] * maps[i - 1] + 3 * maps[i - 1];
  EXPECT_EQ(of("dcgan-discriminator").parameters, discriminator);
}

// A ResNet-50 without its last layer (torchvision's 25,557,032 - 2,049,000) that reads 16 channels instead of 3, the
// pyramid, the decoder.
TEST(Counts, ClimateDeepLab) {
  const Index encoder = 25557032 - 2049000 + 13 * 64 * 49;
  const Index norm = 2 * 256;
  const Index pyramid = 2048 * 256 + 3 * 9 * 2048 * 256 + 2048 * 256 + 5 * 256 * 256 + 6 * norm;
  const Index up = 9 * 256 * 256 + 256;
  const Index quarter = 256 * 48 + 2 * 48 + 9 * (256 + 48) * 256 + 9 * 256 * 256 + 2 * norm;
  const Index full = 9 * 16 * 64 + 64 + 9 * 64 * 128 + 128 + 9 * (256 + 128) * 256 + 256 + up + 3 * 256 + 3;
  EXPECT_EQ(of("deeplab-v3-plus").parameters, encoder + pyramid + 3 * up + quarter + full);
}

TEST(Counts, EveryNetworkIsCounted) {
  for (const std::string& name : registry_names(networks::kind)) EXPECT_TRUE(tiny_networks().contains(name)) << name;
  EXPECT_EQ(of("mlp").parameters, 785 * 512 + 513 * 512 + 513 * 10);
}

// One sample costs a quarter of four, and the parameters are the same.
TEST(Counts, ShapesForOneAndFourSamples) {
  for (const std::string& name : registry_names(networks::kind)) {
    const Graph one = build_network(name, {}, 1, DType::f32, Mode::training);
    const Graph four = build_network(name, {}, 4, DType::f32, Mode::training);
    const Specs a = infer_specs(one), b = infer_specs(four);
    EXPECT_EQ(figures(one).parameters, figures(four).parameters) << name;
    EXPECT_DOUBLE_EQ(4 * figures(one).multiply_adds, figures(four).multiply_adds) << name;
    const Shape &small = a.at(one.outputs[0]).shape, &large = b.at(four.outputs[0]).shape;
    EXPECT_EQ(small[0], 1) << name;
    EXPECT_EQ(large[0], 4) << name;
    EXPECT_EQ(small.elements() * 4, large.elements()) << name;
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      const GraphInput& input = one.inputs[i];
      EXPECT_EQ(input.parameter, input.symbols.empty()) << name << " " << input.name;
      if (input.parameter) {
        EXPECT_EQ(input.spec.shape, four.inputs[i].spec.shape) << name << " " << input.name;
      }
    }
    EXPECT_EQ(one.constants.size(), four.constants.size()) << name;
    for (const auto& [constant, value] : one.constants) {
      const Tensor& other = four.constants.at(constant);
      ASSERT_EQ(value.bytes(), other.bytes()) << name << " " << constant;
      EXPECT_EQ(std::memcmp(value.data(), other.data(), value.bytes()), 0) << name << " " << constant;
    }
  }
}

}  // namespace
}  // namespace d5
