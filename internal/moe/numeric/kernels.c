#include "kernels.h"

#include <string.h>

/* Every product and every sum is rounded by itself: the result must have the same bits as the Go code. */
#pragma STDC FP_CONTRACT OFF

#define GROUP 128
#define PIECE 512

#define INLINE static inline __attribute__((always_inline))

INLINE float from_bits(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

INLINE uint32_t to_bits(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return bits;
}

/* By masks: with ?: the compiler computes only one side, in a branch, which keeps it from computing several channels
 * at a time. */
INLINE uint32_t select(int condition, uint32_t yes, uint32_t no)
{
	uint32_t mask = -(uint32_t)condition;
	return (yes & mask) | (no & ~mask);
}

INLINE uint16_t to_bf16(float f)
{
	uint32_t bits = to_bits(f);
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	uint32_t nan = (bits >> 16) | 0x40;
	return (uint16_t)select((bits & 0x7fffffff) > 0x7f800000, nan, rounded);
}

INLINE uint8_t to_fp8(float f)
{
	uint32_t bits = to_bits(f);
	uint32_t magnitude = bits & 0x7fffffff;
	uint32_t normal = ((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120 << 3);
	uint32_t small = to_bits(from_bits(magnitude) + 16384.0f) - 0x46800000;
	uint32_t v = select(magnitude >= 0x3c800000, normal, small);
	v = select(magnitude >= 0x43e00000, 0x7e, v);
	v = select(magnitude > 0x7f800000, 0x7f, v);
	return (uint8_t)((bits >> 24 & 0x80) | v);
}

INLINE float from_fp8(uint8_t b)
{
	uint32_t magnitude = b & 0x7f;
	/* As a float32 with FP8's exponent; the factor moves the bias from 7 to 127 and normalises what is subnormal. */
	float f = from_bits(magnitude << 20) * 0x1p120f;
	uint32_t bits = select(magnitude == 0x7f, 0x7fc00000, to_bits(f));
	return from_bits(bits | (uint32_t)(b & 0x80) << 24);
}

INLINE void quantize(uint8_t *restrict q, float *restrict scales, const uint16_t *restrict x, size_t groups)
{
	for (size_t g = 0; g < groups; g++, x += GROUP, q += GROUP) {
		uint16_t largest = 0;
		for (int i = 0; i < GROUP; i++) {
			uint16_t v = x[i] & 0x7fff;
			largest = v > largest ? v : largest;
		}
		float amax = from_bits((uint32_t)largest << 16);
		amax = amax < 1e-4f ? 1e-4f : amax;
		float factor = 448.0f / amax;
		scales[g] = amax * (1.0f / 448.0f);
		for (int i = 0; i < GROUP; i++)
			q[i] = to_fp8(from_bits((uint32_t)x[i] << 16) * factor);
	}
}

INLINE void dequantize(uint16_t *restrict x, const uint8_t *restrict q, const float *restrict scales, size_t groups)
{
	for (size_t g = 0; g < groups; g++, x += GROUP, q += GROUP) {
		float scale = scales[g];
		for (int i = 0; i < GROUP; i++)
			x[i] = to_bf16(from_fp8(q[i]) * scale);
	}
}

INLINE void scale(uint16_t *x, float factor, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = to_bf16(from_bits((uint32_t)x[i] << 16) * factor);
}

INLINE void add(float *restrict sum, const uint16_t *restrict row, float w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float product = w * from_bits((uint32_t)row[i] << 16);
		sum[i] += product;
	}
}

INLINE void reduce_rows(uint16_t *restrict out, const uint16_t *restrict base, const int32_t *rows,
                        const float *weights,
			size_t count, size_t n)
{
	float sum[PIECE];
	for (size_t from = 0; from < n; from += PIECE) {
		size_t length = n - from < PIECE ? n - from : PIECE;
		memset(sum, 0, sizeof sum);
		for (size_t k = 0; k < count; k++)
			add(sum, base + (size_t)rows[k] * n + from, weights[k], length);
		for (size_t i = 0; i < length; i++)
			out[from + i] = to_bf16(sum[i]);
	}
}

/* Each kernel is compiled for the processor's wide registers and for any processor. AVX2 alone, without FMA. */
#if defined(__x86_64__) && defined(__GNUC__)
#define KERNEL(name, parameters, arguments)                                                                            \
	__attribute__((target("avx2"))) static void name##_avx2 parameters { name arguments; }                         \
	static void name##_any parameters { name arguments; }                                                          \
	void perigee_##name parameters                                                                                 \
	{                                                                                                              \
		if (__builtin_cpu_supports("avx2"))                                                                    \
			name##_avx2 arguments;                                                                         \
		else                                                                                                   \
			name##_any arguments;                                                                          \
	}
#else
#define KERNEL(name, parameters, arguments)                                                                            \
	void perigee_##name parameters { name arguments; }
#endif

KERNEL(quantize, (uint8_t *q, float *scales, const uint16_t *x, size_t groups), (q, scales, x, groups))
KERNEL(dequantize, (uint16_t *x, const uint8_t *q, const float *scales, size_t groups), (x, q, scales, groups))
KERNEL(scale, (uint16_t *x, float factor, size_t n), (x, factor, n))
KERNEL(reduce_rows,
       (uint16_t *out, const uint16_t *base, const int32_t *rows, const float *weights, size_t count, size_t n),
       (out, base, rows, weights, count, n))
