// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/container.hpp"

#include <glob.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "d5/datasets/parts.hpp"

namespace d5 {
namespace {

std::vector<std::string> names_of(const std::vector<DataOption>& options) {
  std::vector<std::string> names;
  for (const DataOption& option : options) names.push_back(option.name);
  return names;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  return files;
}

[[noreturn]] void fail_packed(const std::string& name, const std::string& path) {
  throw UsageError("[{}] {} is packed, which {} does not read: gunzip it, or name it without .gz", name, path, name);
}

void refuse_packed(const std::string& name, const ContainerEntry& entry, const std::string& path) {
  const auto packed = [](const std::string& ending) { return ending.ends_with(".gz"); };
  if (packed(path) && std::ranges::none_of(entry.endings, packed)) fail_packed(name, path);
}

class Joined : public Dataset {
 public:
  explicit Joined(std::vector<std::shared_ptr<const Dataset>> shards) : shards_(std::move(shards)) {
    fields_ = shards_.front()->fields();
    for (const auto& shard : shards_) {
      starts_.push_back(size_);
      size_ += shard->size();
      const std::vector<Field>& theirs = shard->fields();
      if (theirs.size() != fields_.size())
        throw Error("[data] shards differ: {} and {} fields", fields_.size(), theirs.size());
      for (size_t f = 0; f < fields_.size(); ++f) {
        if (theirs[f].name != fields_[f].name || theirs[f].dtype != fields_[f].dtype)
          throw Error("[data] shards differ: {} {} and {} {}", name(fields_[f].dtype), fields_[f].name,
                      name(theirs[f].dtype), theirs[f].name);
        if (theirs[f].shape != fields_[f].shape) fields_[f].shape.reset();
        if (fields_[f].classes) fields_[f].classes = std::max(*fields_[f].classes, theirs[f].classes.value_or(0));
      }
    }
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return size_; }
  void read(Index i, Sample& into) const override {
    const size_t shard = shard_of(i);
    shards_[shard]->read(i - starts_[shard], into);
  }
  void expect(Index i) const override {
    if (i < 0 || i >= size_) return;
    const size_t shard = shard_of(i);
    shards_[shard]->expect(i - starts_[shard]);
  }
  std::string where(Index i) const override {
    const size_t shard = shard_of(i);
    return shards_[shard]->where(i - starts_[shard]);
  }
  std::vector<std::string> files() const override {
    std::vector<std::string> all;
    for (const auto& shard : shards_)
      for (std::string& file : shard->files()) all.push_back(std::move(file));
    return all;
  }
  void verify() const override {
    for (const auto& shard : shards_) shard->verify();
  }

 private:
  size_t shard_of(Index i) const {
    check_index(*this, i);
    return static_cast<size_t>(std::ranges::upper_bound(starts_, i) - starts_.begin()) - 1;
  }
  std::vector<std::shared_ptr<const Dataset>> shards_;
  std::vector<Index> starts_;
  std::vector<Field> fields_;
  Index size_ = 0;
};

}  // namespace

Attributes complete_options(const Attributes& given, const std::vector<DataOption>& options, std::string_view place) {
  given.check_names(names_of(options), place);
  Attributes all = given;
  for (const DataOption& option : options) {
    if (!all.has(option.name)) all.set(option.name, option.otherwise);
    if (all.values().at(option.name).index() != option.otherwise.index())
      throw UsageError("{} option {} is {}, which is of another type than its default '{}'", place, option.name,
                       to_string(all.values().at(option.name)), to_string(option.otherwise));
  }
  return all;
}

void set_option(Attributes& options, std::string_view text, const std::vector<DataOption>& legal,
                std::string_view place) {
  const size_t equals = text.find('=');
  const std::string name(text.substr(0, equals));
  if (equals == std::string_view::npos) throw UsageError("{} '{}' has not the form NAME=VALUE", place, text);
  const auto option = std::ranges::find(legal, name, &DataOption::name);
  if (option == legal.end()) fail_unknown(place, "option", name, names_of(legal));
  const std::string value(text.substr(equals + 1));
  const char *begin = value.data(), *end = begin + value.size();
  const auto wrong = [&](const char* wanted) {
    return UsageError("{} option {} is '{}', wanted: {}", place, name, value, wanted);
  };
  if (std::holds_alternative<int64_t>(option->otherwise)) {
    int64_t number = 0;
    if (const auto r = std::from_chars(begin, end, number); r.ec != std::errc() || r.ptr != end)
      throw wrong("a whole number");
    options.set(name, number);
  } else if (std::holds_alternative<bool>(option->otherwise)) {
    if (value != "true" && value != "false") throw wrong("true or false");
    options.set(name, value == "true");
  } else if (std::holds_alternative<double>(option->otherwise) ||
             std::holds_alternative<std::vector<double>>(option->otherwise)) {
    std::vector<double> numbers;
    for (const char* at = begin; at <= end; ++at) {  // separated by slashes
      const auto r = std::from_chars(at, end, numbers.emplace_back());
      if (r.ec != std::errc() || (r.ptr != end && *r.ptr != '/')) throw wrong("a number, or several: 0.5/0.4/0.4");
      at = r.ptr;
    }
    if (std::holds_alternative<std::vector<double>>(option->otherwise))
      options.set(name, numbers);
    else if (numbers.size() == 1)
      options.set(name, numbers[0]);
    else
      throw wrong("a number");
  } else {
    options.set(name, value);
  }
}

const ContainerEntry& container(const std::string& name) {
  open_part(containers::kind, name);
  if (const auto* entry = find_registered<containers>(name)) return *entry;
  std::vector<std::string> legal;
  for (const PartStatus& part : all_of_kind(containers::kind)) legal.push_back(part.name);
  fail_unknown("[data]", containers::kind, name, legal);
}

std::shared_ptr<const Dataset> open_container(const std::string& name, const std::string& path,
                                              const Attributes& options) {
  const ContainerEntry& entry = container(name);
  refuse_packed(name, entry, path);
  const Attributes all = complete_options(options, entry.options, fmt::format("[{}]", name));
  return open_named(name, path, [&] { return entry.open(path, all); });
}

void write_container(const std::string& name, const Dataset& dataset, const std::string& path,
                     const Attributes& options) {
  const ContainerEntry& entry = container(name);
  refuse_packed(name, entry, path);
  entry.write(dataset, path, complete_options(options, entry.options, fmt::format("[{}]", name)));
}

std::string guess_container(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    for (const auto& file : std::filesystem::directory_iterator(path)) {
      if (file.path().extension() == ".mdb") return "lmdb";
      if (file.path().extension() == ".bin") return "cifar";
    }
    return "folder";
  }
  std::string best;
  size_t longest = 0;
  for (const PartStatus& part : all_of_kind(containers::kind)) {
    if (!part.available) continue;
    for (const std::string& ending : container(part.name).endings)
      if (ending.size() > longest && path.ends_with(ending)) {
        best = part.name;
        longest = ending.size();
      }
  }
  if (best.empty() && path.ends_with(".gz")) fail_packed(guess_container(path.substr(0, path.size() - 3)), path);
  if (best.empty())
    throw UsageError("[data] {}: its name does not say which container it is; name it (d5 list containers)", path);
  return best;
}

std::optional<size_t> label_field(const Dataset& dataset) {
  const std::vector<Field>& fields = dataset.fields();
  std::optional<size_t> found;
  for (size_t f = 0; f < fields.size(); ++f) {
    if (!fields[f].shape || fields[f].shape->elements() != 1) continue;
    if (fields[f].name == "label" && fields[f].dtype == DType::i64) return f;
    if (fields[f].classes && !found) found = f;
  }
  return found;
}

bool names_label(std::string_view array) {
  constexpr std::array<std::string_view, 6> known{"label", "labels", "y", "y_train", "y_test", "y_val"};
  return std::ranges::find(known, array) != known.end();
}

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

void require_fixed_shapes(const Dataset& dataset, std::string_view place) {
  for (const Field& field : dataset.fields())
    if (!field.shape)
      throw UsageError("{} holds fields of one shape, but '{}' differs from sample to sample: decode or crop it first",
                       place, field.name);
}

void check_index(const Dataset& dataset, Index i) {
  if (i < 0 || i >= dataset.size()) throw Error("[data] there is no sample {}: the set has {}", i, dataset.size());
}

int64_t integer_value(const Tensor& tensor) {
  if (tensor.elements() != 1) throw Error("[data] a label is one number, not [{}]", to_string(tensor.shape()));
  return tensor.cast(DType::i64).values<int64_t>()[0];
}

DType stored_dtype(std::string_view name) {
  try {
    return parse_dtype(name);
  } catch (const UsageError& error) {
    throw Error(std::string(error.what()));
  }
}

std::shared_ptr<const Dataset> open_named(std::string_view container, const std::string& path,
                                          const std::function<std::shared_ptr<const Dataset>()>& open) {
  try {
    return open();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.find(path.substr(0, path.find('*'))) != std::string::npos) throw;
    throw Error("[{}] {}: {}", container, path, what);
  } catch (const std::bad_alloc&) {
    throw Error("[{}] {}: there is not enough memory to open it", container, path);
  }
}

std::shared_ptr<const Dataset> joined(std::vector<std::shared_ptr<const Dataset>> shards) {
  if (shards.size() == 1) return shards.front();
  if (shards.empty()) throw Error("[data] no shards to join");
  return std::make_shared<Joined>(std::move(shards));
}

std::vector<std::string> matching_files(const std::string& pattern) {
  if (pattern.find('*') == std::string::npos) return {pattern};
  std::vector<std::string> files = matches_of(pattern);
  if (files.empty()) throw Error("[data] no file matches {}", pattern);
  return files;
}

bool any_file(const std::string& pattern) {
  return pattern.find('*') == std::string::npos ? std::filesystem::exists(pattern) : !matches_of(pattern).empty();
}

}  // namespace d5
