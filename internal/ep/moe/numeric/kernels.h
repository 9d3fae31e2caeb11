#include <stddef.h>
#include <stdint.h>

void perigee_quantize(uint8_t *q, float *scales, const uint16_t *x, size_t groups);
void perigee_dequantize(uint16_t *x, const uint8_t *q, const float *scales, size_t groups);
void perigee_scale(uint16_t *x, float factor, size_t n);
void perigee_reduce_rows(uint16_t *out, const uint16_t *base, const int32_t *rows, const float *weights, size_t count,
			 size_t n);
