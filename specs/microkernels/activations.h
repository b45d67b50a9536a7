// Functions of a vector of sums, by ACTIVATION, as the problem has it: 1 gelu, 2 gelu by tanh with the factor FACTOR_BITS,
// 3 silu, 4 hardswish, 5 sigmoid, 6 hardsigmoid. What is no number stays none; no library is called.

#pragma once

#define EACH(x) SPREAD(vec, x)

INLINE vec bounded(vec x, float low, float high) {
  LIMIT(x, x < EACH(low), EACH(low));
  LIMIT(x, x > EACH(high), EACH(high));
  return x;
}

// Good to two units in the last place; inf beyond 88.72, 0 below -87.33, where results would have fewer bits.
INLINE vec exponential(vec x) {
  typedef __typeof__(x < x) whole;
  const float big = 12582912.0f;  // what is added to it loses all but whole numbers
  const vec inside = bounded(x, -88.0f, 89.0f);
  const vec shifted = inside * 1.44269504f + big, power = shifted - big;
  const vec r = (inside - power * 0.693145752f) - power * 1.42860677e-6f;
  vec y = r * 1.38888889e-3f + 8.33333333e-3f;
  y = y * r + 4.16666667e-2f;
  y = y * r + 1.66666667e-1f;
  y = y * r + 0.5f;
  y = y * r * r + r + 1.0f;
  // In two halves: the greatest power of all is beyond what an exponent has.
  const whole count = (whole)shifted - 0x4b400000, half = count >> 1;
  y = y * (vec)((half + 127) << 23) * (vec)((count - half + 127) << 23);
  LIMIT(y, x > EACH(88.7228394f), EACH(__builtin_inff()));
  LIMIT(y, x < EACH(-87.3365402f), EACH(0.0f));
  return y;
}

// 1 + erf(x), good to 3e-7: x by a quotient of polynomials in x²; beyond 4 it is 0 or 2.
INLINE vec one_and_erf(vec z) {
  const vec x = bounded(z, -4.0f, 4.0f), s = x * x;
  vec p = s * -2.72614225801306e-10f + 2.77068142495902e-08f;
  p = p * s - 2.10102402082508e-06f;
  p = p * s - 5.69250639462346e-05f;
  p = p * s - 7.34990630326855e-04f;
  p = p * s - 2.95459980854025e-03f;
  p = p * s - 1.60960333262415e-02f;
  vec q = s * -1.45660718464996e-05f - 2.13374055278905e-04f;
  q = q * s - 1.68282697438203e-03f;
  q = q * s - 7.37332916720468e-03f;
  q = q * s - 1.42647390514189e-02f;
  vec y = (x * p + q) / q;
  LIMIT(y, z < EACH(-4.0f), EACH(0.0f));
  LIMIT(y, z > EACH(4.0f), EACH(2.0f));
  return y;
}

INLINE vec hard_sigmoid(vec x) { return bounded(x + 3.0f, 0.0f, 6.0f) * 0.166666672f; }

INLINE vec activated(vec x) {
  switch (ACTIVATION) {
    case 1: return 0.5f * x * one_and_erf(x * 0.707106781f);
    // x * (1 + tanh(y)) / 2 is x * sigmoid(2 y).
    case 2: return x / (1.0f + exponential(-2.0f * from_bits(FACTOR_BITS) * (x + 0.044715f * x * x * x)));
    case 3: return x / (1.0f + exponential(-x));
    case 4: return x * hard_sigmoid(x);
    case 5: return 1.0f / (1.0f + exponential(-x));
    case 6: return hard_sigmoid(x);
    default: return x;
  }
}
