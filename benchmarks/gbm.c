/* Geometric Brownian motion by Euler-Maruyama in float32, written for the vectors of the processor.

   The numbers are those of simkit: Threefry-2x32 with 20 rounds, two normals of a block by inversion
   (simkit_solvers/random). A path stays in registers over all its steps, and OpenMP deals blocks of paths to
   the cores. Compiled by threads.py. */

#include <math.h>
#include <stdint.h>

#define LANES 16 /* of 32 bits in 512 */
#define VECTORS 4 /* independent chains, which hide the latency of each */
#define EACH for (int k = 0; k < VECTORS; k++)

typedef uint32_t U __attribute__((vector_size(4 * LANES)));
typedef int32_t I __attribute__((vector_size(4 * LANES)));
typedef float F __attribute__((vector_size(4 * LANES)));

static const float QUANTILE[] = {
    0.04460282623767853f, 0.05380572751164436f, -0.14241360127925873f, -0.2103034108877182f,
    0.10229693353176117f, 0.2348703294992447f, 0.026996374130249023f, -0.028882844373583794f,
    0.07036304473876953f, 0.06496909260749817f, -0.006941853556782007f, -0.06647661328315735f,
    -0.13663573563098907f, -0.2597042918205261f, -0.5633910298347473f, -2.3306000232696533f,
    4.400758743286133f};
static const float LOG2[] = {0.17065955698490143f, -0.2726888358592987f, 0.2972509562969208f,
                             -0.3589629828929901f, 0.48046618700027466f, -0.7213758230209351f,
                             1.442699670791626f};

static inline void threefry(const U key[VECTORS][3], U a[VECTORS], U b[VECTORS]) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    EACH { a[k] += key[k][0]; b[k] += key[k][1]; }
#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            int r = rotations[i % 2][j];
            EACH { a[k] += b[k]; b[k] = ((b[k] << r) | (b[k] >> (32 - r))) ^ a[k]; }
        }
        EACH { a[k] += key[k][(i + 1) % 3]; b[k] += key[k][(i + 2) % 3] + (uint32_t)(i + 1); }
    }
}

static inline F normal(U word) {
    F v = (__builtin_convertvector((I)(word >> 1), F) + 0.5f) * 0x1p-31f;
    U bits = (U)(v * (2.0f - v));
    I exponent = (I)(bits - 0x3F3504F3u) >> 23;
    F x = (F)(bits - ((U)exponent << 23)) - 1.0f;
    F y = x * 0.0f + LOG2[0];
#pragma GCC unroll 6
    for (int i = 1; i < 7; i++) y = y * x + LOG2[i];
    F t = (__builtin_convertvector(exponent, F) + x * y) * (2.0f / 31) + 1.0f;
    F z = t * 0.0f + QUANTILE[0];
#pragma GCC unroll 16
    for (int i = 1; i < 17; i++) z = z * t + QUANTILE[i];
    return (F)((U)((1.0f - v) * z) | (word << 31));
}

/* The last value of each path, a multiple of 64 of them. `steps` is even. */
void gbm(long paths, long steps, float mu, float sigma, float start, uint32_t seed, float *last) {
    const float dt = 1.0f / steps, drift = mu * dt, noise = sigma * sqrtf(dt);
#pragma omp parallel for schedule(static)
    for (long first = 0; first < paths; first += LANES * VECTORS) {
        U key[VECTORS][3], seeds[VECTORS][3];
        F S[VECTORS];
        U lane;
        for (int i = 0; i < LANES; i++) lane[i] = i;
        EACH {
            U zero = lane ^ lane;
            seeds[k][0] = zero; seeds[k][1] = zero + seed; seeds[k][2] = seeds[k][1] ^ 0x1BD11BDAu;
            key[k][0] = lane + (uint32_t)(first + k * LANES);
            key[k][1] = zero;
            S[k] = (F)zero + start;
        }
        U a[VECTORS], b[VECTORS];
        EACH { a[k] = key[k][0]; b[k] = key[k][1]; }
        threefry((const U(*)[3])seeds, a, b);
        EACH { key[k][0] = a[k]; key[k][1] = b[k]; key[k][2] = a[k] ^ b[k] ^ 0x1BD11BDAu; }
        for (long n = 0; n < steps / 2; n++) {
            EACH { a[k] = (lane ^ lane) + (uint32_t)n; b[k] = lane ^ lane; }
            threefry((const U(*)[3])key, a, b);
            EACH S[k] += S[k] * drift + S[k] * noise * normal(a[k]);
            EACH S[k] += S[k] * drift + S[k] * noise * normal(b[k]);
        }
        EACH for (int i = 0; i < LANES; i++) last[first + k * LANES + i] = S[k][i];
    }
}
