/* Forces of a Lennard-Jones fluid in float64 over simkit's lists, written for the vectors of the processor.

   A vector holds the eight members of a cluster, and each neighbour on its list acts on all of them; the sums
   of forces stay in registers. Compiled by lennard_jones.py. */

#include <math.h>
#include <stdint.h>

#define MEMBERS 8
#define AT_ONCE 8 /* neighbours whose nearest images are found together */

typedef double D __attribute__((vector_size(8 * MEMBERS)));
typedef int64_t I __attribute__((vector_size(8 * MEMBERS)));

typedef struct { D x, y, z; } Vector;

static inline void attract(Vector *sum, Vector own, double x, double y, double z, double cutoff2, I other) {
    D dx = own.x - x, dy = own.y - y, dz = own.z - z;
    D r2 = dx * dx + dy * dy + dz * dz;
    I near = (r2 < cutoff2) & other;
    D inverse = 1.0 / r2, s6 = inverse * inverse * inverse;
    D strength = 24.0 * inverse * s6 * (2.0 * s6 - 1.0);
    strength = (D)((I)strength & near); /* also where a distance of zero made it NaN */
    sum->x += strength * dx;
    sum->y += strength * dy;
    sum->z += strength * dz;
}

static inline __attribute__((always_inline)) void
group(Vector *sum, Vector own, const double origin[3], const double *position, const int32_t *neighbours,
      int count, double side, double cutoff2) {
    double at[3][AT_ONCE];
    for (int j = 0; j < count; j++) {
        const double *q = position + 3 * MEMBERS * (neighbours[j] / MEMBERS) + neighbours[j] % MEMBERS;
        for (int a = 0; a < 3; a++) at[a][j] = q[MEMBERS * a] - origin[a];
    }
    for (int a = 0; a < 3; a++)
        for (int j = 0; j < count; j++) at[a][j] -= side * nearbyint(at[a][j] / side);
    for (int j = 0; j < count; j++) attract(sum, own, at[0][j], at[1][j], at[2][j], cutoff2, (I){} - 1);
}

/* Positions and forces are (cluster, component, member). The neighbours of cluster c are neighbours[first[c]],
   ..., numbers 8 cluster + member; empty places, at NaN, are on no list. The box is a cube. */
void forces(long clusters, const int64_t *first, const int32_t *neighbours, const double *position,
            double *force, double side, double cutoff) {
    const double cutoff2 = cutoff * cutoff;
    for (long c = 0; c < clusters; c++) {
        const double *p = position + 3 * MEMBERS * c;
        const double origin[3] = {p[0], p[MEMBERS], p[2 * MEMBERS]};
        D relative[3];
        for (int a = 0; a < 3; a++)
            for (int m = 0; m < MEMBERS; m++) { /* a cluster may lie across the border of the box */
                double d = p[MEMBERS * a + m] - origin[a];
                relative[a][m] = d - side * nearbyint(d / side);
            }
        Vector own = {relative[0], relative[1], relative[2]}, sum = {{0}, {0}, {0}};
        for (int m = 0; m < MEMBERS; m++) {
            if (own.x[m] != own.x[m]) continue;
            I others = (I){} - 1;
            others[m] = 0;
            attract(&sum, own, own.x[m], own.y[m], own.z[m], cutoff2, others);
        }
        int64_t k = first[c], end = first[c + 1];
        for (; k + AT_ONCE <= end; k += AT_ONCE)
            group(&sum, own, origin, position, neighbours + k, AT_ONCE, side, cutoff2);
        group(&sum, own, origin, position, neighbours + k, (int)(end - k), side, cutoff2);
        D *f = (D *)(force + 3 * MEMBERS * c);
        f[0] = sum.x;
        f[1] = sum.y;
        f[2] = sum.z;
    }
}
