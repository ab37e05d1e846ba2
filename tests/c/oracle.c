/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <math.h>
#include <stdlib.h>

#include "testlib.h"

int64_t oracle_source(enum ogp_padding padding, int64_t size, int64_t j)
{
    switch (padding) {
    case OGP_REPLICATE:
        return j < 0 ? 0 : j >= size ? size - 1 : j;
    case OGP_REFLECT:
        while (j < 0 || j >= size)
            j = j < 0 ? -j : 2 * (size - 1) - j;
        return j;
    case OGP_CIRCULAR:
        j %= size;
        return j < 0 ? j + size : j;
    case OGP_ZEROS:
        break;
    }
    return j < 0 || j >= size ? -1 : j;
}

/* ---- dense copies and sums ---- */

static double *dense_copy(enum ogp_dtype dtype, const struct ogp_input *in, const int64_t extent[5])
{
    double *copy = test_alloc((size_t)extents_count(extent) * sizeof(double));
    double *next = copy;
    int64_t i[5];
    for (i[0] = 0; i[0] < extent[0]; i[0]++)
        for (i[1] = 0; i[1] < extent[1]; i[1]++)
            for (i[2] = 0; i[2] < extent[2]; i[2]++)
                for (i[3] = 0; i[3] < extent[3]; i[3]++)
                    for (i[4] = 0; i[4] < extent[4]; i[4]++) {
                        int64_t at = 0;
                        for (int a = 0; a < 5; a++)
                            at += i[a] == 0 ? 0 : i[a] * in->stride[a];
                        *next++ =
                            dtype == OGP_F64 ? ((const double *)in->data)[at] : (double)((const float *)in->data)[at];
                    }
    return copy;
}

struct sums {
    long double *sum;
    double *mag;
    int64_t *terms;
};

static struct sums sums_make(int64_t count)
{
    struct sums s = {test_alloc((size_t)count * sizeof *s.sum), test_alloc((size_t)count * sizeof *s.mag),
                     test_alloc((size_t)count * sizeof *s.terms)};
    for (int64_t i = 0; i < count; i++) {
        s.sum[i] = 0;
        s.mag[i] = 0;
        s.terms[i] = 0;
    }
    return s;
}

static void add(struct sums *s, int64_t at, double a, double b)
{
    const long double product = (long double)a * b;
    s->sum[at] += product;
    s->mag[at] += fabs((double)product);
    s->terms[at]++;
}

static struct oracle sums_finish(struct sums *s, int64_t count)
{
    struct oracle out = {count, test_alloc((size_t)count * sizeof(double)), s->mag, s->terms};
    for (int64_t i = 0; i < count; i++)
        out.value[i] = (double)s->sum[i];
    free(s->sum);
    return out;
}

/* ---- the definition ---- */

struct geometry {
    int64_t n, g, co, cig, cog; /* cig, cog: channels of one group */
    int64_t in[3], k[3], o[3];
    int64_t *source[3]; /* [o][t]: index into x, or -1 */
};

static void geometry_make(struct geometry *m, const struct ogp_problem *p)
{
    const int64_t g = p->g ? p->g : 1;
    *m = (struct geometry){.n = p->n, .g = g, .co = p->co, .cig = p->ci / g, .cog = p->co / g};
    problem_output(p, m->o);
    for (int a = 0; a < 3; a++) {
        const int64_t s = p->stride[a] ? p->stride[a] : 1, l = p->dilation[a] ? p->dilation[a] : 1;
        m->in[a] = p->in[a];
        m->k[a] = p->kernel[a];
        m->source[a] = test_alloc((size_t)(m->o[a] * m->k[a]) * sizeof(int64_t));
        for (int64_t o = 0; o < m->o[a]; o++)
            for (int64_t t = 0; t < m->k[a]; t++)
                m->source[a][o * m->k[a] + t] = oracle_source(p->padding, p->in[a], o * s + t * l - p->pad_lo[a]);
    }
}

/* Adds the term w[wi] * x[xi] -> y[yi] to the pass; xi < 0 is a padded zero, a value in products but nobody's input. */
static void term(enum ogp_pass pass, struct sums *out, double *const in[3], int64_t xi, int64_t wi, int64_t yi)
{
    switch (pass) {
    case OGP_FORWARD:
        add(out, yi, in[1][wi], xi < 0 ? 0.0 : in[0][xi]);
        break;
    case OGP_GRAD_INPUT:
        if (xi >= 0)
            add(out, xi, in[1][wi], in[0][yi]);
        break;
    case OGP_GRAD_WEIGHT:
        add(out, wi, xi < 0 ? 0.0 : in[0][xi], in[1][yi]);
        break;
    case OGP_GRAD_BIAS:
        break;
    }
}

/* All terms of y[n][co][o]. */
static void window(const struct geometry *m, enum ogp_pass pass, struct sums *out, double *const in[3], int64_t n,
                   int64_t co, const int64_t o[3], int64_t yi)
{
    for (int64_t c = 0; c < m->cig; c++) {
        const int64_t channel = n * m->cig * m->g + co / m->cog * m->cig + c;
        for (int64_t d = 0; d < m->k[0]; d++)
            for (int64_t h = 0; h < m->k[1]; h++)
                for (int64_t w = 0; w < m->k[2]; w++) {
                    const int64_t xd = m->source[0][o[0] * m->k[0] + d];
                    const int64_t xh = m->source[1][o[1] * m->k[1] + h];
                    const int64_t xw = m->source[2][o[2] * m->k[2] + w];
                    const int outside = xd < 0 || xh < 0 || xw < 0;
                    const int64_t xi = outside ? -1 : ((channel * m->in[0] + xd) * m->in[1] + xh) * m->in[2] + xw;
                    const int64_t wi = (((co * m->cig + c) * m->k[0] + d) * m->k[1] + h) * m->k[2] + w;
                    term(pass, out, in, xi, wi, yi);
                }
    }
}

static void windows(const struct geometry *m, enum ogp_pass pass, struct sums *out, double *const in[3])
{
    int64_t o[3], yi = 0;
    for (int64_t n = 0; n < m->n; n++)
        for (int64_t co = 0; co < m->co; co++)
            for (o[0] = 0; o[0] < m->o[0]; o[0]++)
                for (o[1] = 0; o[1] < m->o[1]; o[1]++)
                    for (o[2] = 0; o[2] < m->o[2]; o[2]++)
                        window(m, pass, out, in, n, co, o, yi++);
}

static int64_t channel_of(const struct geometry *m, int64_t yi)
{
    return yi / (m->o[0] * m->o[1] * m->o[2]) % m->co;
}

static void bias_forward(const struct geometry *m, struct sums *y, const double *b, int64_t count)
{
    for (int64_t yi = 0; yi < count; yi++)
        add(y, yi, b[channel_of(m, yi)], 1.0);
}

static struct oracle bias_gradient(const struct geometry *m, const double *gy)
{
    struct sums gb = sums_make(m->co);
    const int64_t count = m->n * m->co * m->o[0] * m->o[1] * m->o[2];
    for (int64_t yi = 0; yi < count; yi++)
        add(&gb, channel_of(m, yi), gy[yi], 1.0);
    return sums_finish(&gb, m->co);
}

void oracle_run(const struct ogp_problem *problem, enum ogp_pass pass, const struct ogp_input *const in[3],
                struct oracle out[2])
{
    struct geometry m;
    geometry_make(&m, problem);
    double *dense[3] = {0};
    for (int i = 0; i < pass_inputs(pass); i++)
        if (in[i]) {
            int64_t extent[5];
            role_extents(problem, pass_input_role(pass, i), extent);
            dense[i] = dense_copy(problem->dtype, in[i], extent);
        }
    out[0] = out[1] = (struct oracle){0};
    if (pass == OGP_GRAD_BIAS) {
        out[0] = bias_gradient(&m, dense[0]);
    } else {
        int64_t extent[5];
        role_extents(problem, pass_output_role(pass, 0), extent);
        struct sums sums = sums_make(extents_count(extent));
        windows(&m, pass, &sums, dense);
        if (pass == OGP_FORWARD && dense[2])
            bias_forward(&m, &sums, dense[2], extents_count(extent));
        out[0] = sums_finish(&sums, extents_count(extent));
        if (pass == OGP_GRAD_WEIGHT)
            out[1] = bias_gradient(&m, dense[1]);
    }
    for (int i = 0; i < 3; i++) {
        free(dense[i]);
        free(m.source[i]);
    }
}

void oracle_free(struct oracle out[2])
{
    for (int i = 0; i < 2; i++) {
        free(out[i].value);
        free(out[i].mag);
        free(out[i].terms);
        out[i] = (struct oracle){0};
    }
}
