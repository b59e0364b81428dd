// SPDX-License-Identifier: Apache-2.0
#include "chart.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbena::bench {

std::string bar_chart(const std::vector<Row>& rows) {
  constexpr int kLabels = 220;
  constexpr int kWidth = 420;
  constexpr int kRow = 30;
  double most = 0;
  for (const Row& row : rows) most = std::max(most, median(row.ours));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kLabels + kWidth + 120, kRow * static_cast<int>(rows.size()) + 10);
  int y = 5;
  for (const Row& row : rows) {
    const double value = median(row.ours);
    const double width = most > 0 ? kWidth * value / most : 0;
    svg += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n"
        "<rect x=\"{}\" y=\"{}\" width=\"{:.0f}\" height=\"20\" fill=\"#5b7fb5\"/>\n"
        "<text x=\"{:.0f}\" y=\"{}\">{:.2f} {}</text>\n",
        kLabels - 8, y + 15, row.name, kLabels, y, width, kLabels + width + 6, y + 15,
        value / row.scale, row.unit);
    y += kRow;
  }
  return svg + "</svg>";
}

}  // namespace verbena::bench
