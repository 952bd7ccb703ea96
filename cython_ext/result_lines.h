/* The lines of a result file, "id score x1 y1 x2 y2", for result_lines.pyx. */
#ifndef LAPSVM_RESULT_LINES_H
#define LAPSVM_RESULT_LINES_H

#include <stddef.h>
#include <string.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <vector>

namespace lapsvm {

/* A line that is not plain. */
struct OddLine {
    ptrdiff_t row, number, start, stop;
};

struct ResultLines {
    ptrdiff_t n_rows = 0;
    std::vector<std::string_view> names;
    std::vector<OddLine> odd;
};

inline bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }

inline const char* after_blanks(const char* at, const char* stop) {
    while (at != stop && is_blank(*at)) at++;
    return at;
}

/* Read a decimal number up to a blank or `stop`. Null where Python's float might read it differently: as infinity, NaN,
   zero for a small number, or with an underscore; and where the library reads no floating-point numbers. */
inline const char* read_number(const char* at, const char* stop, double* value) {
#ifdef __cpp_lib_to_chars
    const char* digit = at + (at != stop && *at == '-');
    if (digit == stop || *digit < '0' || *digit > '9') return nullptr;
    auto [end, error] = std::from_chars(at, stop, *value);
    return error == std::errc() && (end == stop || is_blank(*end)) ? end : nullptr;
#else
    (void)at, (void)stop, (void)value;
    return nullptr;
#endif
}

/* Read five numbers with blanks around them; return whether a line has these alone. */
inline bool read_numbers(const char* at, const char* stop, double* row) {
    for (int field = 0; field < 5; field++) {
        at = read_number(after_blanks(at, stop), stop, row + field);
        if (at == nullptr) return false;
    }
    return after_blanks(at, stop) == stop;
}

/* Return the id of a line with a plain one, else an empty text. A tab ends an id with spaces. */
inline std::string_view read_line(const char* start, const char* stop, double* row) {
    for (const char* at = start; at != stop; at++)
        if (*at != '\t' && (*at < ' ' || *at > '~')) return {};      /* blanks and letters beyond ASCII */
    const char* word = after_blanks(start, stop);
    const char* end = word;
    while (end != stop && !is_blank(*end)) end++;
    if (read_numbers(end, stop, row)) return {word, static_cast<size_t>(end - word)};
    const char* tab = static_cast<const char*>(memchr(start, '\t', stop - start));
    if (tab == nullptr || !read_numbers(tab, stop, row)) return {};
    return {start, static_cast<size_t>(tab - start)};
}

/* Read the lines of a text: the numbers (n, 5) of each, and the place of its id in `names`, -1 in an odd line. */
static ResultLines read_result_lines(const char* text, ptrdiff_t length, double* numbers, ptrdiff_t* places) {
    ResultLines lines;
    std::unordered_map<std::string_view, ptrdiff_t> known;
    const char *stop = text + length, *start = text;
    for (ptrdiff_t number = 1; start < stop; number++) {
        const char* end = static_cast<const char*>(memchr(start, '\n', stop - start));
        if (end == nullptr) end = stop;
        if (after_blanks(start, end) != end) {
            std::string_view name = read_line(start, end, numbers + 5 * lines.n_rows);
            if (name.empty()) {
                lines.odd.push_back({lines.n_rows, number, start - text, end - text});
                places[lines.n_rows] = -1;
            } else {
                auto [place, is_new] = known.try_emplace(name, static_cast<ptrdiff_t>(lines.names.size()));
                if (is_new) lines.names.push_back(name);
                places[lines.n_rows] = place->second;
            }
            lines.n_rows++;
        }
        start = end + 1;
    }
    return lines;
}

}  // namespace lapsvm

#endif
