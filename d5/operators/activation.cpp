// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/activation.hpp"

namespace d5 {
namespace {

struct Named {
  const char* name;
  int parameters;  // 0: none, 1: alpha, 2: alpha and beta
  double alpha, beta;
  double (*function)(double, double, double);
  double (*derivative)(double, double, double);
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double squared(double x) { return x * x; }

const Named table[] = {
    {"Relu", 0, 0, 0, [](double x, double, double) { return x > 0 ? x : 0; },
     [](double x, double, double) { return x > 0 ? 1.0 : 0.0; }},
    {"Tanh", 0, 0, 0, [](double x, double, double) { return std::tanh(x); },
     [](double x, double, double) { return 1 - squared(std::tanh(x)); }},
    {"Sigmoid", 0, 0, 0, [](double x, double, double) { return sigmoid(x); },
     [](double x, double, double) { return sigmoid(x) * sigmoid(-x); }},
    {"Affine", 2, 1, 0, [](double x, double a, double b) { return a * x + b; },
     [](double, double a, double) { return a; }},
    {"LeakyRelu", 1, 0.01, 0, [](double x, double a, double) { return x >= 0 ? x : a * x; },
     [](double x, double a, double) { return x >= 0 ? 1.0 : a; }},
    {"ThresholdedRelu", 1, 1, 0, [](double x, double a, double) { return x >= a ? x : 0; },
     [](double x, double a, double) { return x >= a ? 1.0 : 0.0; }},
    {"ScaledTanh", 2, 1, 1, [](double x, double a, double b) { return a * std::tanh(b * x); },
     [](double x, double a, double b) { return a * b * (1 - squared(std::tanh(b * x))); }},
    {"HardSigmoid", 2, 0.2, 0.5, [](double x, double a, double b) { return std::min(std::max(a * x + b, 0.0), 1.0); },
     [](double x, double a, double b) { return a * x + b > 0 && a * x + b < 1 ? a : 0; }},
    {"Elu", 1, 1, 0, [](double x, double a, double) { return x >= 0 ? x : a * std::expm1(x); },
     [](double x, double a, double) { return x >= 0 ? 1.0 : a * std::exp(x); }},
    {"Softsign", 0, 0, 0, [](double x, double, double) { return x / (1 + std::abs(x)); },
     [](double x, double, double) { return 1 / squared(1 + std::abs(x)); }},
    {"Softplus", 0, 0, 0,
     [](double x, double, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
     [](double x, double, double) { return sigmoid(x); }},
};

const Named& named(const std::string& name, std::string_view place) {
  std::vector<std::string> legal;
  for (const Named& one : table) {
    if (one.name == name) return one;
    legal.push_back(one.name);
  }
  fail_unknown(place, "activation", name, legal);
}

}  // namespace

std::vector<Activation> read_activations(const Attributes& a, const std::vector<std::string>& otherwise,
                                         size_t directions, std::string_view place) {
  std::vector<std::string> names;
  if (const auto found = a.values().find("activations"); found != a.values().end()) {
    if (const auto* list = std::get_if<std::vector<std::string>>(&found->second)) names = *list;
  }
  if (names.empty())
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), otherwise.begin(), otherwise.end());
  if (names.size() != otherwise.size() * directions)
    throw Error("{} {} activations given; {} are wanted, {} for each direction", place, names.size(),
                otherwise.size() * directions, otherwise.size());
  const auto alphas = a.reals("activation_alpha"), betas = a.reals("activation_beta");
  const double clip = a.real("clip", std::numeric_limits<double>::infinity());
  if (!(clip > 0)) throw Error("{} clip is {}; a positive threshold is wanted", place, clip);
  size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> all;
  for (const std::string& name : names) {
    const Named& one = named(name, place);
    Activation made{one.function, one.derivative, one.alpha, one.beta, clip};
    if (one.parameters > 0 && next_alpha < alphas.size()) made.alpha = alphas[next_alpha++];
    if (one.parameters > 1 && next_beta < betas.size()) made.beta = betas[next_beta++];
    all.push_back(made);
  }
  return all;
}

}  // namespace d5
