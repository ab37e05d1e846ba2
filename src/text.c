/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of a problem: one table of words, used to parse and to print. */
#include "text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "util.h"

static const char *const pass_name[] = {"forward", "grad_input", "grad_weight", "grad_bias"};
static const char *const dtype_name[] = {"f32", "f64"};
static const char *const padding_name[] = {"zeros", "reflect", "replicate", "circular"};

/* A named number: one int64 field, or the first of three. */
struct field {
    const char *prefix;
    size_t offset;
    int count;
    int64_t implied; /* the value that is not printed; a missing word means it too */
    bool always;     /* printed whatever it is */
};

#define FIELD(member) offsetof(struct ogp_problem, member)
static const struct field fields[] = {
    {"n", FIELD(n), 1, 1, false},           {"g", FIELD(g), 1, 1, false},         {"ci", FIELD(ci), 1, 1, false},
    {"co", FIELD(co), 1, 1, false},         {"i", FIELD(in), 3, 0, true},       {"k", FIELD(kernel), 3, 0, true},
    {"s", FIELD(stride), 3, 1, false},      {"p", FIELD(pad_lo), 3, 0, false},    {"q", FIELD(pad_hi), 3, 0, false},
    {"l", FIELD(dilation), 3, 1, false},
};

struct layout_word {
    const char *word;
    size_t offset;
};
static const struct layout_word layouts[] = {
    {"xndhwc", FIELD(x_layout)}, {"wndhwc", FIELD(w_layout)}, {"yndhwc", FIELD(y_layout)},
};

static int64_t *field_at(struct ogp_problem *p, const struct field *f)
{
    return (int64_t *)(void *)((char *)p + f->offset);
}

static bool find_word(const char *const names[], size_t count, const char *word, size_t length, int *at)
{
    for (size_t k = 0; k < count; k++)
        if (strlen(names[k]) == length && memcmp(names[k], word, length) == 0) {
            *at = (int)k;
            return true;
        }
    return false;
}

/* Reads the digits, with their sign, at *text and moves behind them; false where there are none or too many. */
static bool read_number(const char **text, const char *end, int64_t *out)
{
    const char *at = *text;
    const bool negative = at < end && *at == '-';
    at += negative;
    const char *const first = at;
    int64_t value = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        const int digit = *at - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *text = at;
    *out = value;
    return at > first;
}

/* Reads "12" or "1x2x3" up to end; a lone number fills all. */
static bool read_numbers(const char *text, const char *end, int count, int64_t out[3])
{
    int got = 0;
    do {
        if (!read_number(&text, end, &out[got]))
            return false;
    } while (++got < count && text < end && *text++ == 'x');
    if (text != end || (got != 1 && got != count))
        return false;
    for (int k = got; k < count; k++)
        out[k] = out[0];
    return true;
}

static bool read_field(struct ogp_problem *p, const char *word, const char *end, bool *has_q)
{
    for (size_t f = 0; f < OGP_COUNT(fields); f++) {
        const size_t length = strlen(fields[f].prefix);
        const char *const digits = word + length;
        if (digits >= end || memcmp(fields[f].prefix, word, length) != 0 || !strchr("-0123456789", *digits))
            continue;
        *has_q |= fields[f].offset == FIELD(pad_hi);
        return read_numbers(digits, end, fields[f].count, field_at(p, &fields[f]));
    }
    return false;
}

static bool read_layout(struct ogp_problem *p, const char *word, size_t length)
{
    for (size_t k = 0; k < OGP_COUNT(layouts); k++)
        if (strlen(layouts[k].word) == length && memcmp(layouts[k].word, word, length) == 0) {
            *(enum ogp_layout *)(void *)((char *)p + layouts[k].offset) = OGP_NDHWC;
            return true;
        }
    return false;
}

static bool read_word(struct ogp_problem *p, enum ogp_pass *pass, const char *word, size_t length, bool *has_q)
{
    int at;
    if (find_word(pass_name, OGP_COUNT(pass_name), word, length, &at))
        return *pass = (enum ogp_pass)at, true;
    if (find_word(dtype_name, OGP_COUNT(dtype_name), word, length, &at))
        return p->dtype = (enum ogp_dtype)at, true;
    if (find_word(padding_name, OGP_COUNT(padding_name), word, length, &at))
        return p->padding = (enum ogp_padding)at, true;
    return read_layout(p, word, length) || read_field(p, word, word + length, has_q);
}

enum ogp_status ogp_problem_parse(const char *text, struct ogp_problem *problem, enum ogp_pass *pass,
                                  struct ogp_error *error)
{
    if (!text || !problem || !pass)
        return ogp_fail(error, OGP_BAD_ARG, "%s: expected a pointer, got NULL",
                        !text ? "text" : !problem ? "problem" : "pass");
    struct ogp_problem p = {.size = sizeof p, .n = 1, .g = 1, .ci = 1, .co = 1};
    for (int d = 0; d < 3; d++)
        p.stride[d] = p.dilation[d] = 1;
    enum ogp_pass which = OGP_FORWARD;
    bool has_q = false;
    static const char space[] = " \t\r\n";
    for (text += strspn(text, space); *text; text += strspn(text, space)) {
        const size_t length = strcspn(text, space);
        if (!read_word(&p, &which, text, length, &has_q))
            return ogp_fail(error, OGP_BAD_ARG, "problem text: expected a pass, dtype, padding, layout or a letter with "
                            "numbers such as k3 or i8x9x10, got '%.*s'", (int)ogp_min((int64_t)length, 60), text);
        text += length;
    }
    if (!has_q)
        memcpy(p.pad_hi, p.pad_lo, sizeof p.pad_hi);
    *problem = p;
    *pass = which;
    return OGP_OK;
}

void ogp_text_add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t room = t->length < t->bytes ? t->bytes - t->length : 0;
    const int length = vsnprintf(room ? t->out + t->length : NULL, room, format, args);
    va_end(args);
    t->length += length > 0 ? (size_t)length : 0;
}

static void print_field(struct text *t, const struct field *f, const int64_t v[3], const struct ogp_problem *p)
{
    const bool same = f->count == 1 || (v[0] == v[1] && v[0] == v[2]);
    const bool is_q = f->offset == FIELD(pad_hi);
    if (is_q ? memcmp(v, p->pad_lo, sizeof p->pad_lo) == 0 : !f->always && same && v[0] == f->implied)
        return;
    if (same)
        ogp_text_add(t, " %s%" PRId64, f->prefix, v[0]);
    else
        ogp_text_add(t, " %s%" PRId64 "x%" PRId64 "x%" PRId64, f->prefix, v[0], v[1], v[2]);
}

size_t ogp_problem_print(const struct ogp_problem *problem, enum ogp_pass pass, char *text, size_t bytes)
{
    struct text t = {.out = text, .bytes = text ? bytes : 0};
    if (t.bytes)
        text[0] = '\0';
    if (!problem || (size_t)pass >= OGP_COUNT(pass_name) || (size_t)problem->dtype >= OGP_COUNT(dtype_name) ||
        (size_t)problem->padding >= OGP_COUNT(padding_name))
        return 0;
    struct ogp_problem p = *problem; /* with its defaults in place, as the words of a parsed text */
    p.g += p.g == 0;
    for (int d = 0; d < 3; d++) {
        p.stride[d] += p.stride[d] == 0;
        p.dilation[d] += p.dilation[d] == 0;
    }
    ogp_text_add(&t, "%s", pass_name[pass]);
    if (p.dtype != OGP_F32)
        ogp_text_add(&t, " %s", dtype_name[p.dtype]);
    if (p.padding != OGP_ZEROS)
        ogp_text_add(&t, " %s", padding_name[p.padding]);
    for (size_t f = 0; f < OGP_COUNT(fields); f++)
        print_field(&t, &fields[f], field_at(&p, &fields[f]), &p);
    for (size_t k = 0; k < OGP_COUNT(layouts); k++)
        if (*(enum ogp_layout *)(void *)((char *)&p + layouts[k].offset) == OGP_NDHWC)
            ogp_text_add(&t, " %s", layouts[k].word);
    return t.length;
}
