// SPDX-License-Identifier: Apache-2.0
// A training as LibTorch's tutorials have it in C++: a data set, a data loader, a loop. What d5 train is held against.
//
//   bin/d5-torch-loop lenet|resnet-20 TRAIN TEST [EPOCHS] [WORKERS] [THREADS] [SEED]
//
// Networks, rates and augmentation are those of pytorch_loop.py, which is beside this file. TRAIN and TEST are what
// compare.py writes: "samples channels height width" as text on a line, all images as bytes, all labels as bytes.
// Prints one JSON object, as pytorch_loop.py does.
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

namespace {

namespace F = torch::nn::functional;

class Images final : public torch::data::datasets::Dataset<Images> {
 public:
  Images(const std::string& file, const std::vector<float>& mean, const std::vector<float>& deviation, bool augmented)
      : augmented_(augmented) {
    std::ifstream in(file, std::ios::binary);
    std::string line;
    int64_t samples = 0, channels = 0, height = 0, width = 0;
    std::getline(in, line);
    std::istringstream(line) >> samples >> channels >> height >> width;
    images_ = torch::empty({samples, channels, height, width}, torch::kUInt8);
    const torch::Tensor labels = torch::empty({samples}, torch::kUInt8);
    in.read(static_cast<char*>(images_.data_ptr()), images_.numel());
    in.read(static_cast<char*>(labels.data_ptr()), labels.numel());
    if (!in || samples == 0) throw std::runtime_error(file + " cannot be read");
    labels_ = labels.to(torch::kInt64);
    mean_ = torch::tensor(mean).view({-1, 1, 1});
    deviation_ = torch::tensor(deviation).view({-1, 1, 1});
  }

  torch::data::Example<> get(size_t i) override {
    const auto at = static_cast<int64_t>(i);
    torch::Tensor image = images_[at];
    if (augmented_) {
      const int64_t height = image.size(1), width = image.size(2);
      const torch::Tensor corner = torch::randint(0, 9, {2});
      const auto top = corner[0].item<int64_t>(), left = corner[1].item<int64_t>();
      image = torch::constant_pad_nd(image, {4, 4, 4, 4}).narrow(1, top, height).narrow(2, left, width);
      if (torch::rand({1}).item<float>() < 0.5f) image = image.flip({2});
    }
    return {(image.to(torch::kFloat32) / 255 - mean_) / deviation_, labels_[at]};
  }
  std::optional<size_t> size() const override { return static_cast<size_t>(labels_.numel()); }

 private:
  torch::Tensor images_, labels_, mean_, deviation_;
  bool augmented_;
};

struct Network : torch::nn::Module {
  virtual torch::Tensor forward(torch::Tensor x) = 0;
};

struct LeNet final : Network {
  LeNet() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_module("fc3", fc3);
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = torch::relu(fc1(x.flatten(1)));
    return fc3(torch::relu(fc2(x)));
  }
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 6, 5).padding(2)}, conv2{torch::nn::Conv2dOptions(6, 16, 5)};
  torch::nn::Linear fc1{400, 120}, fc2{120, 84}, fc3{84, 10};
};

torch::nn::Conv2d three_by_three(int64_t before, int64_t maps, int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(before, maps, 3).stride(stride).padding(1).bias(false));
}

struct Block final : Network {
  Block(int64_t before, int64_t maps, int64_t by)
      : stride(by),
        zeros((maps - before) / 2),
        conv1(register_module("conv1", three_by_three(before, maps, by))),
        conv2(register_module("conv2", three_by_three(maps, maps, 1))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(maps))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(maps))) {}
  torch::Tensor forward(torch::Tensor x) override {
    const torch::Tensor y = bn2(conv2(torch::relu(bn1(conv1(x)))));
    if (stride == 2)  // every second pixel, zero maps on both sides (option A)
      x = torch::constant_pad_nd(x.slice(2, 0, std::nullopt, 2).slice(3, 0, std::nullopt, 2),
                                 {0, 0, 0, 0, zeros, zeros});
    return torch::relu(y + x);
  }
  int64_t stride, zeros;
  torch::nn::Conv2d conv1, conv2;
  torch::nn::BatchNorm2d bn1, bn2;
};

struct ResNet20 final : Network {
  ResNet20() {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("fc", fc);
    for (int64_t stage = 0; stage < 3; ++stage)
      for (int64_t i = 0; i < 3; ++i) {
        const bool first = i == 0 && stage > 0;
        const int64_t maps = 16 << stage;
        blocks.push_back(std::make_shared<Block>(first ? maps / 2 : maps, maps, first ? 2 : 1));
        register_module("block" + std::to_string(3 * stage + i), blocks.back());
      }
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(bn1(conv1(x)));
    for (const auto& block : blocks) x = block->forward(x);
    return fc(x.mean({2, 3}));
  }
  torch::nn::Conv2d conv1 = three_by_three(3, 16, 1);
  torch::nn::BatchNorm2d bn1{16};
  torch::nn::Linear fc{64, 10};
  std::vector<std::shared_ptr<Block>> blocks;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t right_of(const torch::Tensor& scores, const torch::Tensor& labels) {
  return scores.argmax(1).eq(labels).sum().item<int64_t>();
}

int run(int argc, char** argv) {
  const std::string name = argv[1];
  const auto number = [&](int at, int64_t otherwise) { return argc > at ? std::stoll(argv[at]) : otherwise; };
  const int64_t epochs = number(4, 1), workers = number(5, 0);
  at::set_num_threads(static_cast<int>(number(6, 1)));
  torch::manual_seed(static_cast<uint64_t>(number(7, 1)));
  const bool lenet = name == "lenet";
  if (!lenet && name != "resnet-20") throw std::runtime_error(name + " is no network; legal: lenet, resnet-20");
  const int64_t batch = lenet ? 64 : 128;
  const std::vector<float> mean = lenet ? std::vector{0.1307f} : std::vector{0.4914f, 0.4822f, 0.4465f};
  const std::vector<float> deviation = lenet ? std::vector{0.3081f} : std::vector{0.2470f, 0.2435f, 0.2616f};

  std::shared_ptr<Network> network;
  if (lenet)
    network = std::make_shared<LeNet>();
  else
    network = std::make_shared<ResNet20>();
  torch::optim::SGD optimizer(
      network->parameters(),
      torch::optim::SGDOptions(lenet ? 0.02 : 0.1).momentum(0.9).weight_decay(lenet ? 0 : 0.0001));
  const auto options = torch::data::DataLoaderOptions().batch_size(static_cast<size_t>(batch));
  auto train = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      Images(argv[2], mean, deviation, !lenet).map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions(options).workers(static_cast<size_t>(workers)));
  auto test = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Images(argv[3], mean, deviation, false).map(torch::data::transforms::Stack<>()), options);

  double seconds = 0, loss_sum = 0;
  int64_t samples = 0, of_epoch = 0, right = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    network->train();
    of_epoch = right = 0;
    loss_sum = 0;
    const double began = seconds_now();
    for (auto& example : *train) {
      optimizer.zero_grad();
      const torch::Tensor scores = network->forward(example.data);
      const torch::Tensor loss = F::cross_entropy(scores, example.target);
      loss.backward();
      optimizer.step();
      const int64_t count = example.target.size(0);
      loss_sum += loss.item<double>() * static_cast<double>(count);
      right += right_of(scores, example.target);
      of_epoch += count;
    }
    seconds += seconds_now() - began;
    samples += of_epoch;
  }
  int64_t tested = 0, right_tested = 0;
  network->eval();
  const torch::NoGradGuard no_gradients;
  for (auto& example : *test) {
    right_tested += right_of(network->forward(example.data), example.target);
    tested += example.target.size(0);
  }
  const auto share = [](int64_t part, int64_t of) { return static_cast<double>(part) / static_cast<double>(of); };
  std::printf(
      "{\"loop\": \"libtorch\", \"version\": \"%s\", \"samples_per_second\": %.6g, \"samples\": %lld, \"seconds\": "
      "%.6g, \"train_loss\": %.6g, \"train_accuracy\": %.6g, \"test_accuracy\": %.6g}\n",
      TORCH_VERSION, static_cast<double>(samples) / seconds, static_cast<long long>(samples), seconds,
      loss_sum / static_cast<double>(of_epoch), share(right, of_epoch), share(right_tested, tested));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: d5-torch-loop lenet|resnet-20 TRAIN TEST [EPOCHS] [WORKERS] [THREADS] [SEED]\n";
    return 2;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
