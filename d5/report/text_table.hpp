// SPDX-License-Identifier: Apache-2.0
// Aligned columns of text. Nothing is ever cut: a column is as wide as its longest cell.
#pragma once

#include <string>
#include <vector>

namespace d5 {

enum class Align { left, right };
enum class Tone { plain, good, bad, faint };

struct Cell {
  std::string text;
  Tone tone = Tone::plain;
};

class TextTable {
 public:
  void column(std::string header, Align align = Align::left);
  // Cells from the left. `remark` follows the last of them and widens no column.
  void row(std::vector<Cell> cells, Cell remark = {});

  size_t width() const;                 // of the columns, without remarks
  std::string text(bool colour) const;  // header and rows, each with its newline

 private:
  struct Column {
    std::string header;
    Align align;
    size_t width;
  };
  struct Row {
    std::vector<Cell> cells;
    Cell remark;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// Characters, not bytes, of UTF-8.
size_t display_width(const std::string& text);
std::string coloured(const std::string& text, Tone tone, bool colour);

}  // namespace d5
