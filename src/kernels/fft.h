/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the complex Fourier transforms: N = A*B points in two steps of small transforms that stay in registers.
 * With n = j + B*i and k = k1 + A*k2 (i, k1 < A; j, k2 < B), e(p/q) = exp(-2 pi i p/q):
 *
 *   X[k] = sum over j: e(j*k2/B) * e(j*k1/N) * sum over i: e(i*k1/A) x[j + B*i]        (Cooley and Tukey, 1965)
 *
 * Forward leaves X[k1 + A*k2] at place B*k1 + k2, the inverse takes it from there: no reordering. Exchanging real and
 * imaginary parts before and after turns a transform into its inverse, so there is one set of small transforms. */

/* (re, im) *= (wr, wi): four products and two sums, fused to four operations. */
INLINE void c_mul(V *re, V *im, T wr, T wi)
{
    const V r = *re, i = *im;
    *re = r * v_set1(wr) - i * v_set1(wi);
    *im = r * v_set1(wi) + i * v_set1(wr);
}

/* (a, b) = (a + b, a - b) */
INLINE void c_butterfly(V *re, V *im, int a, int b)
{
    const V r = re[a], i = im[a];
    re[a] = r + re[b];
    im[a] = i + im[b];
    re[b] = r - re[b];
    im[b] = i - im[b];
}

/* x *= -i */
INLINE void c_turn(V *re, V *im)
{
    const V r = *re;
    *re = *im;
    *im = -r;
}

INLINE void c_exchange(V *re, V *im, int a, int b)
{
    const V r = re[a], i = im[a];
    re[a] = re[b];
    im[a] = im[b];
    re[b] = r;
    im[b] = i;
}

INLINE void dft_3(V *re, V *im, int at, int step)
{
    const int a = at, b = at + step, c = at + 2 * step;
    const V half = v_set1((T)0.5), root = v_set1((T)0.866025403784438646763723170752936183);
    const V sum_re = re[b] + re[c], sum_im = im[b] + im[c];
    const V turn_re = root * (im[b] - im[c]), turn_im = root * (re[c] - re[b]);
    const V mid_re = re[a] - half * sum_re, mid_im = im[a] - half * sum_im;
    re[a] += sum_re;
    im[a] += sum_im;
    re[b] = mid_re + turn_re;
    im[b] = mid_im + turn_im;
    re[c] = mid_re - turn_re;
    im[c] = mid_im - turn_im;
}

INLINE void dft_4(V *re, V *im)
{
    c_butterfly(re, im, 0, 2);
    c_butterfly(re, im, 1, 3);
    c_turn(&re[3], &im[3]);
    c_butterfly(re, im, 0, 1);
    c_butterfly(re, im, 2, 3);
    c_exchange(re, im, 1, 2);
}

INLINE void dft_5(V *re, V *im)
{
    const V c1 = v_set1((T)0.309016994374947424102293417182819059),
            c2 = v_set1((T)-0.809016994374947424102293417182819059);
    const V s1 = v_set1((T)0.951056516295153572116439333379382143),
            s2 = v_set1((T)0.587785252292473129168705954639072769);
    const V p_re = re[1] + re[4], p_im = im[1] + im[4], q_re = re[2] + re[3], q_im = im[2] + im[3];
    const V m_re = re[1] - re[4], m_im = im[1] - im[4], n_re = re[2] - re[3], n_im = im[2] - im[3];
    const V a_re = re[0] + c1 * p_re + c2 * q_re, a_im = im[0] + c1 * p_im + c2 * q_im;
    const V b_re = re[0] + c2 * p_re + c1 * q_re, b_im = im[0] + c2 * p_im + c1 * q_im;
    const V u_re = s1 * m_im + s2 * n_im, u_im = s1 * m_re + s2 * n_re;
    const V v_re = s2 * m_im - s1 * n_im, v_im = s2 * m_re - s1 * n_re;
    re[0] += p_re + q_re;
    im[0] += p_im + q_im;
    re[1] = a_re + u_re;
    im[1] = a_im - u_im;
    re[4] = a_re - u_re;
    im[4] = a_im + u_im;
    re[2] = b_re + v_re;
    im[2] = b_im - v_im;
    re[3] = b_re - v_re;
    im[3] = b_im + v_im;
}

/* Two of three points each, odd ones of the second turned by e(1/2). */
INLINE void dft_6(V *re, V *im)
{
    dft_3(re, im, 0, 2); /* 0 2 4: even results at 0 2 4, as k1 = 0 1 2 */
    V odd_re[3] = {re[3], re[5], re[1]}, odd_im[3] = {im[3], im[5], im[1]};
    dft_3(odd_re, odd_im, 0, 1); /* x[3 + 2i mod 6] */
    const V e_re[3] = {re[0], re[2], re[4]}, e_im[3] = {im[0], im[2], im[4]};
    /* k = 3*k2 + 4*k1 mod 6 (Good and Thomas: no twiddles between 2 and 3) */
    UNROLL
    for (int k = 0; k < 3; k++) {
        const int even = 4 * k % 6, odd = (4 * k + 3) % 6;
        re[even] = e_re[k] + odd_re[k];
        im[even] = e_im[k] + odd_im[k];
        re[odd] = e_re[k] - odd_re[k];
        im[odd] = e_im[k] - odd_im[k];
    }
}

INLINE void dft_8(V *re, V *im)
{
    const V root = v_set1((T)0.707106781186547524400844362104849039);
    UNROLL
    for (int k = 0; k < 4; k++)
        c_butterfly(re, im, k, k + 4);
    /* 5 *= e(1/8), 6 *= -i, 7 *= e(3/8) */
    const V r5 = re[5], i5 = im[5], r7 = re[7], i7 = im[7];
    re[5] = root * (r5 + i5);
    im[5] = root * (i5 - r5);
    c_turn(&re[6], &im[6]);
    re[7] = root * (i7 - r7);
    im[7] = -root * (r7 + i7);
    dft_4(re, im);
    dft_4(re + 4, im + 4);
    /* even results from the first half, odd from the second: 0 4 1 5 2 6 3 7 */
    const V e_re[4] = {re[0], re[1], re[2], re[3]}, e_im[4] = {im[0], im[1], im[2], im[3]};
    const V o_re[4] = {re[4], re[5], re[6], re[7]}, o_im[4] = {im[4], im[5], im[6], im[7]};
    UNROLL
    for (int k = 0; k < 4; k++) {
        re[2 * k] = e_re[k];
        im[2 * k] = e_im[k];
        re[2 * k + 1] = o_re[k];
        im[2 * k + 1] = o_im[k];
    }
}

INLINE void dft(V *re, V *im, const int N)
{
    if (N == 2)
        c_butterfly(re, im, 0, 1);
    else if (N == 3)
        dft_3(re, im, 0, 1);
    else if (N == 4)
        dft_4(re, im);
    else if (N == 5)
        dft_5(re, im);
    else if (N == 6)
        dft_6(re, im);
    else if (N == 8)
        dft_8(re, im);
}

/* What lies between the two steps: real and imaginary parts side by side, so that no load meets a store 4 KiB away. */
struct c_between {
    V re, im;
};

/* First step of forward: the points j + B*i. twiddled: j > 0. */
INLINE void fft_forward_first(const struct ogp_fft *f, struct c_between *between, int64_t i, int j, const int A,
                              const int B, const int twiddled)
{
    const T *re = (const T *)f->re + j * f->re_step + i, *im = (const T *)f->im + j * f->im_step + i;
    const T *const twiddle = f->twiddle;
    V r[8], s[8];
    UNROLL
    for (int k = 0; k < A; k++, re = v_onward(re, B * f->re_step), im = v_onward(im, B * f->im_step)) {
        r[k] = v_load(re);
        s[k] = v_load(im);
    }
    dft(r, s, A);
    UNROLL
    for (int k = 0; k < A; k++) {
        if (twiddled && k > 0)
            c_mul(&r[k], &s[k], twiddle[2 * j * k], twiddle[2 * j * k + 1]);
        between[B * k + j] = (struct c_between){r[k], s[k]};
    }
}

INLINE void fft_forward_body(const struct ogp_fft *f, const int A, const int B)
{
    const int64_t step = f->step, imaginary = f->imaginary, columns = f->vectors * LANES;
    struct c_between between[OGP_POINTS_MOST];
    for (int64_t i = 0; i < columns; i += LANES) {
        fft_forward_first(f, between, i, 0, A, B, 0);
        for (int j = 1; j < B; j++)
            fft_forward_first(f, between, i, j, A, B, 1);
        T *out = (T *)f->bins + i;
        for (int k = 0; k < A; k++) {
            V r[8], s[8];
            UNROLL
            for (int j = 0; j < B; j++) {
                r[j] = between[B * k + j].re;
                s[j] = between[B * k + j].im;
            }
            dft(r, s, B);
            UNROLL
            for (int j = 0; j < B; j++, out = (T *)v_onward(out, step)) {
                v_store(out, r[j]);
                v_store(out + imaginary, s[j]);
            }
        }
    }
}

/* First step of the inverse: the bins k1 = k. twiddled: k > 0. */
INLINE void fft_inverse_first(const struct ogp_fft *f, struct c_between *between, int64_t i, int k, const int A,
                              const int B, const int twiddled)
{
    const T *in = (const T *)f->bins + k * (B * f->step) + i;
    const T *const twiddle = f->twiddle;
    V r[8], s[8];
    UNROLL
    for (int j = 0; j < B; j++, in = v_onward(in, f->step)) {
        r[j] = v_load(in);
        s[j] = v_load(in + f->imaginary);
    }
    dft(s, r, B);
    UNROLL
    for (int j = 0; j < B; j++) {
        if (twiddled && j > 0)
            c_mul(&s[j], &r[j], twiddle[2 * j * k], twiddle[2 * j * k + 1]);
        between[A * j + k] = (struct c_between){r[j], s[j]};
    }
}

INLINE void fft_inverse_body(const struct ogp_fft *f, const int A, const int B)
{
    const int64_t columns = f->vectors * LANES, re_count = f->re_count, im_count = f->im_count;
    const int64_t count = re_count > im_count ? re_count : im_count, re_step = f->re_step, im_step = f->im_step;
    const V bias = v_set1((T)f->bias);
    struct c_between between[OGP_POINTS_MOST];
    for (int64_t i = 0; i < columns; i += LANES) {
        fft_inverse_first(f, between, i, 0, A, B, 0);
        for (int k = 1; k < A; k++)
            fft_inverse_first(f, between, i, k, A, B, 1);
        for (int j = 0; j < B && j < count; j++) {
            T *re = (T *)f->re + j * f->re_step + i, *im = (T *)f->im + j * f->im_step + i;
            V r[8], s[8];
            UNROLL
            for (int k = 0; k < A; k++) {
                r[k] = between[A * j + k].re;
                s[k] = between[A * j + k].im;
            }
            dft(s, r, A);
            UNROLL
            for (int k = 0; k < A; k++) {
                if (j + B * k < re_count)
                    v_store(re, r[k] + bias);
                if (j + B * k < im_count)
                    v_store(im, s[k] + bias);
                re = (T *)v_onward(re, B * re_step);
                im = (T *)v_onward(im, B * im_step);
            }
        }
    }
}
