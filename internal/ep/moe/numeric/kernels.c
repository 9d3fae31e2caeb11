#include "kernels.h"

#include <string.h>

/* Every product and every sum is rounded by itself: the result must have the same bits as the Go code. */
#pragma STDC FP_CONTRACT OFF

#define GROUP 128

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

/* Channels are computed LANES at a time in vectors, which GCC and Clang map to the processor's registers: of the loops
 * below they make scalar code, or shuffle more than they compute. */
#define LANES 8
typedef float floats __attribute__((vector_size(4 * LANES)));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINE floats load_bf16(const uint16_t *x)
{
	halves h;
	memcpy(&h, x, sizeof h);
	return (floats)(__builtin_convertvector(h, words) << 16);
}

INLINE words either(words mask, words yes, words no) { return (yes & mask) | (no & ~mask); }

INLINE words to_fp8(floats f)
{
	words bits = (words)f, magnitude = bits & 0x7fffffff;
	words normal = ((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120 << 3);
	words small = (words)((floats)magnitude + 16384.0f) - 0x46800000;
	words v = either((words)(magnitude >= 0x3c800000), normal, small);
	v = either((words)(magnitude >= 0x43e00000), (words){} + 0x7e, v);
	v = either((words)(magnitude > 0x7f800000), (words){} + 0x7f, v);
	return (bits >> 24 & 0x80) | v;
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
		uint32_t wide[GROUP]; /* to be narrowed together */
		for (int i = 0; i < GROUP; i += LANES) {
			words v = to_fp8(load_bf16(x + i) * factor);
			memcpy(wide + i, &v, sizeof v);
		}
		for (int i = 0; i < GROUP; i++)
			q[i] = (uint8_t)wide[i];
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

/* Of each row so many channels at a time, whose sums stay in registers. */
#define PIECE (4 * LANES)

INLINE void reduce_rows(uint16_t *restrict out, const uint16_t *restrict base, const int32_t *rows,
                        const float *weights, size_t count, size_t n)
{
	size_t from = 0;
	for (; from + PIECE <= n; from += PIECE) {
		floats sum[PIECE / LANES] = {0};
		for (size_t k = 0; k < count; k++) {
			const uint16_t *row = base + (size_t)rows[k] * n + from;
			for (int v = 0; v < PIECE / LANES; v++) {
				floats product = load_bf16(row + v * LANES) * weights[k];
				sum[v] += product;
			}
		}
		float sums[PIECE];
		memcpy(sums, sum, sizeof sums);
		for (int i = 0; i < PIECE; i++)
			out[from + i] = to_bf16(sums[i]);
	}
	for (; from < n; from++) {
		float sum = 0;
		for (size_t k = 0; k < count; k++) {
			float product = from_bits((uint32_t)base[(size_t)rows[k] * n + from] << 16) * weights[k];
			sum += product;
		}
		out[from] = to_bf16(sum);
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
