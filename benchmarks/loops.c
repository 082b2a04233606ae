/* The loops that runs of the papers spend their time in, as anybody would write them in C.
   Arrays are row by row, in double; nothing is vectorised by hand. */
#include <math.h>
#include <stddef.h>

/* mean of clip(gradient of the logistic loss at theta, radius) over n rows (x, target) */
void clipped_logistic(const double *rows, const double *theta, size_t n, size_t d, double radius,
                      double *out) {
    for (size_t k = 0; k < d; k++) out[k] = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double *x = rows + i * (d + 1);
        double sign = 2.0 * x[d] - 1.0, margin = 0.0, square = 0.0;
        for (size_t k = 0; k < d; k++) margin += x[k] * theta[k];
        double weight = -sign / (1.0 + exp(sign * margin));
        for (size_t k = 0; k < d; k++) square += x[k] * x[k];
        double norm = fabs(weight) * sqrt(square);
        if (!isfinite(norm)) continue;
        if (norm > radius) weight *= radius / norm;
        for (size_t k = 0; k < d; k++) out[k] += weight * x[k];
    }
    for (size_t k = 0; k < d; k++) out[k] /= (double)n;
}

/* noise of prefix sums: e_t = sum over u <= t of column[t - u] z_u, of T rows of d numbers */
void prefix_noise(const double *column, const double *z, size_t rounds, size_t d, double *out) {
    for (size_t t = 0; t < rounds; t++) {
        double *e = out + t * d;
        for (size_t k = 0; k < d; k++) e[k] = 0.0;
        for (size_t u = 0; u <= t; u++) {
            double weight = column[t - u];
            const double *row = z + u * d;
            for (size_t k = 0; k < d; k++) e[k] += weight * row[k];
        }
    }
}

/* averages of one pass of projected SGD by each group over its own items, less the start;
   gradients are clipped to lipschitz */
void one_pass(const double *rows, const double *start, size_t groups, size_t items, size_t d,
              double step, double lipschitz, double radius, double *out) {
    double here[256], total[256];
    for (size_t g = 0; g < groups; g++) {
        for (size_t k = 0; k < d; k++) here[k] = start[k], total[k] = 0.0;
        for (size_t t = 0; t < items; t++) {
            const double *x = rows + (g * items + t) * (d + 1);
            double sign = 1.0 - 2.0 * x[d], margin = 0.0, square = 0.0;
            double length = 0.0;
            for (size_t k = 0; k < d; k++) margin += x[k] * here[k];
            for (size_t k = 0; k < d; k++) length += x[k] * x[k];
            double slope = sign / (1.0 + exp(-sign * margin));
            double norm = fabs(slope) * sqrt(length);
            slope *= step * (norm > lipschitz ? lipschitz / norm : 1.0);
            for (size_t k = 0; k < d; k++) {
                here[k] -= slope * x[k];
                square += here[k] * here[k];
            }
            if (square > radius * radius) {
                double shrink = radius / sqrt(square);
                for (size_t k = 0; k < d; k++) here[k] *= shrink;
            }
            for (size_t k = 0; k < d; k++) total[k] += here[k] - start[k];
        }
        for (size_t k = 0; k < d; k++) out[g * d + k] = total[k] / (double)items;
    }
}
