// SPDX-License-Identifier: Apache-2.0
// Containers: how samples lie in files. One file each: it opens with the format, then a class with static members
//   about                           one line
//   endings()                       of the names of such files, for guessing; with .gz where it reads packed ones
//   options()                       named values with defaults
//   open(path, options)             the samples; options are complete
//   write(dataset, path, options)   the same samples in this format; UsageError where it cannot hold them
// then one line: D5_REGISTER(containers, "idx", Idx);
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "d5/core/attributes.hpp"
#include "d5/core/registry.hpp"
#include "d5/datasets/dataset.hpp"

namespace d5 {

struct DataOption {
  std::string name, about;
  Value otherwise;  // the default; its type is the option's type
};
// `given` with the defaults of what is missing. UsageError on unknown names and wrong types.
Attributes complete_options(const Attributes& given, const std::vector<DataOption>&, std::string_view place);
// "label=first" as the type its default has.
void set_option(Attributes&, std::string_view name_and_value, const std::vector<DataOption>&, std::string_view place);

struct ContainerEntry {
  std::string about;
  std::vector<std::string> endings;
  std::vector<DataOption> options;
  std::function<std::shared_ptr<const Dataset>(const std::string& path, const Attributes&)> open;
  std::function<void(const Dataset&, const std::string& path, const Attributes&)> write;
};
struct containers {
  static constexpr const char* kind = "container";
  using Entry = ContainerEntry;
  template <class T>
  static Entry entry() {
    return {T::about, T::endings(), T::options(), T::open, T::write};
  }
};

const ContainerEntry& container(const std::string& name);  // opens its module; Error with the reason where it is off
std::shared_ptr<const Dataset> open_container(const std::string& name, const std::string& path,
                                              const Attributes& options = {});
void write_container(const std::string& name, const Dataset&, const std::string& path, const Attributes& options = {});
// By the end of the name, or what a folder holds; UsageError where nothing fits, or the file is packed and that
// container reads no packed ones.
std::string guess_container(const std::string& path);

// ---- for containers
// The one field that says the class, one number a sample: named "label", or the first that has classes. Or none.
std::optional<size_t> label_field(const Dataset&);
// Fields of one shape are what arrays hold; UsageError naming the first that is not.
// Is an array of this name, of one integer a row, taken for the label?
bool names_label(std::string_view array);
// "a,b" -> a, b
std::vector<std::string> parts_of(std::string_view text);
void require_fixed_shapes(const Dataset&, std::string_view place);
void check_index(const Dataset&, Index i);  // Error where there is no sample i
int64_t integer_value(const Tensor&);       // of a tensor of one integer

// The element type that a file names. Error where there is none of that name: the file is wrong, not the user.
DType stored_dtype(std::string_view name);
// What `open` gives; an Error of it that does not name the file gets its name.
std::shared_ptr<const Dataset> open_named(std::string_view container, const std::string& path,
                                          const std::function<std::shared_ptr<const Dataset>()>& open);

// Shards one after the other as one set. Their fields must agree in name and type; shapes that differ become open.
std::shared_ptr<const Dataset> joined(std::vector<std::shared_ptr<const Dataset>> shards);
// The files a path stands for: itself; what a pattern with * matches; sorted. Error where nothing does.
std::vector<std::string> matching_files(const std::string& pattern);
bool any_file(const std::string& pattern);  // or folder

}  // namespace d5
