// SPDX-License-Identifier: Apache-2.0
#include "d5/report/text_table.hpp"

#include <algorithm>

namespace d5 {
namespace {

constexpr size_t gap = 2;

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

size_t display_width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string coloured(const std::string& text, Tone tone, bool colour) {
  if (!colour || tone == Tone::plain || text.empty()) return text;
  const char* code = tone == Tone::good ? "32" : tone == Tone::bad ? "31" : "2";
  return std::string("\x1b[") + code + "m" + text + "\x1b[0m";
}

void TextTable::column(std::string header, Align align) {
  const size_t width = display_width(header);
  columns_.push_back({std::move(header), align, width});
}

void TextTable::row(std::vector<Cell> cells, Cell remark) {
  for (size_t i = 0; i < cells.size(); ++i) {
    columns_[i].width = std::max(columns_[i].width, display_width(cells[i].text));
  }
  rows_.push_back({std::move(cells), std::move(remark)});
}

size_t TextTable::width() const {
  size_t total = 0;
  for (const Column& c : columns_) total += c.width + gap;
  return total - (columns_.empty() ? 0 : gap);
}

std::string TextTable::text(bool colour) const {
  const auto padded = [&](const Cell& cell, const Column& column) {
    const std::string space(column.width - display_width(cell.text), ' ');
    const std::string shown = coloured(cell.text, cell.tone, colour);
    return (column.align == Align::right ? space + shown : shown + space) + std::string(gap, ' ');
  };
  std::string result, line;
  for (const Column& c : columns_) line += padded({c.header}, c);
  result += trimmed(line);
  for (const Row& r : rows_) {
    line.clear();
    for (size_t i = 0; i < r.cells.size(); ++i) line += padded(r.cells[i], columns_[i]);
    result += trimmed(line + coloured(r.remark.text, r.remark.tone, colour));
  }
  return result;
}

}  // namespace d5
