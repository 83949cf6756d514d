// SPDX-License-Identifier: Apache-2.0
// An update rule as it is written on a blackboard, recorded once and then run fused over whole arenas (update.hpp):
//   auto [p, g] = f.parameter_and_gradient();
//   auto v = f.state("v");
//   v = mu * v + g;
//   p -= f.scalar("learning_rate") * v;
// A variable reads as what was last assigned to it. What does not differ between elements (scalars, norms, numbers) is
// computed once a step, or once a parameter, in double, and rounded to f32 where it meets elements. A division by such
// a value is a multiplication by its reciprocal, and factors of one product are gathered. Elements are f32; nothing is
// contracted (no fused multiply-add), so that results are the same bits on every processor.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace d5 {

class Formula;

// A value of a formula: one number of each element, of each parameter or of the whole.
class Expression {
 public:
  Expression(double constant) : constant_(constant) {}  // NOLINT: numbers are expressions

 private:
  friend class Formula;
  friend class Variable;
  Expression(Formula* formula, int node) : formula_(formula), node_(node) {}
  Formula* formula_ = nullptr;  // null: a number
  int node_ = -1;
  double constant_ = 0;
};

// What can be assigned: the parameter, a state. The last value assigned is stored.
class Variable {
 public:
  operator Expression() const;
  Variable(const Variable&) = default;
  Variable& operator=(const Expression&);
  Variable& operator=(const Variable& other) { return *this = static_cast<Expression>(other); }
  Variable& operator+=(const Expression&);
  Variable& operator-=(const Expression&);
  Variable& operator*=(const Expression&);

 private:
  friend class Formula;
  Variable(Formula* formula, size_t slot) : formula_(formula), slot_(slot) {}
  Formula* formula_;
  size_t slot_;
};

class Formula {
 public:
  Formula();
  Formula(const Formula&) = delete;  // expressions point to it
  Formula& operator=(const Formula&) = delete;

  struct ParameterAndGradient {
    Variable parameter;
    Expression gradient;
  };
  ParameterAndGradient parameter_and_gradient();
  enum class Start { zero, parameter };  // what a state holds before the first step
  Variable state(std::string_view name, Start = Start::zero, double value = 0);  // one number an element; zero + value
  Variable scalar_state(std::string_view name, double start = 0);                // one number in all, f64
  // "learning_rate", "step" (from 1), "epoch", "gradient_factor" (modifiers.hpp).
  Expression scalar(std::string_view name);
  // A value of each parameter: "weight_decay", 0 for those that are excluded from it, and "excluded", 1 for these.
  Expression per_parameter(std::string_view name);
  Expression norm(const Expression&);         // L2, over each parameter
  Expression global_norm(const Expression&);  // L2, over all parameters
  void replace_gradient(const Expression&);   // what parameter_and_gradient() gives from now on: clipping

  // ---- what was recorded
  enum class Op : unsigned char {
    parameter,
    gradient,
    state,
    constant,
    scalar,
    per_parameter,
    scalar_state,
    add,
    subtract,
    multiply,
    divide,
    minimum,
    maximum,
    power,
    square_root,
    absolute,
    sign,
    norm,
    global_norm,
    where_positive
  };
  enum class Extent : unsigned char { all, parameter, element };
  struct Node {
    Op op;
    Extent extent;
    int a = -1, b = -1, c = -1;  // operands
    int index = -1;              // of a state or a name
    double constant = 0;
    bool operator==(const Node&) const = default;
  };
  struct Slot {
    std::string name;
    Op op;  // parameter, state, scalar_state
    Start start;
    double value;
    int first, now;  // nodes: as loaded, as last assigned
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::deque<Slot>& slots() const { return slots_; }
  const std::vector<std::string>& names() const { return names_; }  // of scalars and values of parameters
  bool uses(Op) const;

  // Operators and functions are below; they end here.
  static Expression apply(Op, const Expression& a);
  static Expression apply(Op, const Expression& a, const Expression& b);
  static Expression apply(Op, const Expression& a, const Expression& b, const Expression& c);

 private:
  friend class Variable;
  int add(Node);
  int node_of(const Expression&);
  int combine(Op, int a, int b);
  int combine_uniform(Op, int a, int b);
  int constant(double);
  bool is_constant(int node, double value) const;
  bool uniform(int node) const { return nodes_[static_cast<size_t>(node)].extent != Extent::element; }
  int name_index(std::string_view);
  Variable variable(std::string_view name, Op, Start, double value);
  std::vector<Node> nodes_;  // operands come before their users
  std::deque<Slot> slots_;
  std::vector<std::string> names_;
  int gradient_ = -1;
};

// Of numbers: what is not of elements is computed so.
double evaluate(Formula::Op, double a, double b, double c = 0);

Expression operator+(const Expression&, const Expression&);
Expression operator-(const Expression&, const Expression&);
Expression operator*(const Expression&, const Expression&);
Expression operator/(const Expression&, const Expression&);
Expression operator-(const Expression&);
Expression sqrt(const Expression&);
Expression abs(const Expression&);
Expression sign(const Expression&);  // -1, 0, 1
Expression square(const Expression&);
Expression min(const Expression&, const Expression&);  // of what cannot be compared the second
Expression max(const Expression&, const Expression&);
Expression pow(const Expression& base, const Expression& exponent);  // of scalars and values of parameters alone
Expression where_positive(const Expression& condition, const Expression& then, const Expression& otherwise);

}  // namespace d5
