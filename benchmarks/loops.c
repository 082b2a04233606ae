/* The loops that runs of the papers spend their time in, as anybody would write them in C.
   Arrays are row by row, in double; nothing is vectorised by hand. */
#include <math.h>
#include <numpy/random/bitgen.h>
#include <stddef.h>

double random_standard_normal(bitgen_t *generator); /* numpy/random/distributions.h */

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

/* the gradient of (w.softplus(W x + b) + c - y)^2 for one row (x, y): delta, which times (x, 1) is
   the part of W and b, and rest, the part of w and c; theta packs W (h, d), b, w and c */
static void softplus_parts(const double *row, const double *theta, size_t d, size_t h,
                           double *delta, double *rest) {
    const double *bias = theta + h * d, *w = bias + h;
    double prediction = w[h];
    for (size_t j = 0; j < h; j++) {
        double score = bias[j];
        for (size_t k = 0; k < d; k++) score += theta[j * d + k] * row[k];
        double small = exp(-fabs(score));
        rest[j] = (score > 0.0 ? score : 0.0) + log1p(small);
        delta[j] = (score >= 0.0 ? 1.0 : small) / (1.0 + small);
        prediction += w[j] * rest[j];
    }
    double error = 2.0 * (prediction - row[d]);
    for (size_t j = 0; j < h; j++) {
        delta[j] *= error * w[j];
        rest[j] *= error;
    }
    rest[h] = error;
}

/* mean of clip(gradient at theta, radius) over n rows, or, where previous is not NULL, of
   clip(gradient at theta - gradient at previous, radius); h is at most 64 */
void clipped_softplus(const double *rows, const double *theta, const double *previous, size_t n,
                      size_t d, size_t h, double radius, double *out) {
    double delta[64], rest[65], before[64], rest_before[65];
    size_t size = h * d + 2 * h + 1;
    for (size_t k = 0; k < size; k++) out[k] = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double *x = rows + i * (d + 1);
        softplus_parts(x, theta, d, h, delta, rest);
        if (previous) {
            softplus_parts(x, previous, d, h, before, rest_before);
            for (size_t j = 0; j < h; j++) delta[j] -= before[j];
            for (size_t j = 0; j <= h; j++) rest[j] -= rest_before[j];
        }
        double inputs = 1.0, inner = 0.0, outer = 0.0;
        for (size_t k = 0; k < d; k++) inputs += x[k] * x[k];
        for (size_t j = 0; j < h; j++) inner += delta[j] * delta[j];
        for (size_t j = 0; j <= h; j++) outer += rest[j] * rest[j];
        double norm = sqrt(inner * inputs + outer);
        if (!isfinite(norm)) continue;
        double weight = (norm > radius ? radius / norm : 1.0) / (double)n;
        for (size_t j = 0; j < h; j++) {
            double part = weight * delta[j];
            for (size_t k = 0; k < d; k++) out[j * d + k] += part * x[k];
            out[h * d + j] += part;
        }
        for (size_t j = 0; j <= h; j++) out[h * d + h + j] += weight * rest[j];
    }
}

/* means over each user's items of the gradient x - z of half the squared distance, clipped */
void user_distances(const double *items, const double *point, size_t users, size_t each, size_t d,
                    double lipschitz, double *out) {
    double gradient[64];
    for (size_t u = 0; u < users; u++) {
        double *mean = out + u * d;
        for (size_t k = 0; k < d; k++) mean[k] = 0.0;
        for (size_t i = 0; i < each; i++) {
            const double *z = items + (u * each + i) * d;
            double square = 0.0;
            for (size_t k = 0; k < d; k++) gradient[k] = point[k] - z[k];
            for (size_t k = 0; k < d; k++) square += gradient[k] * gradient[k];
            double norm = sqrt(square);
            if (!isfinite(norm)) continue;
            double weight = norm > lipschitz ? lipschitz / norm : 1.0;
            for (size_t k = 0; k < d; k++) mean[k] += weight * gradient[k];
        }
        for (size_t k = 0; k < d; k++) mean[k] /= (double)each;
    }
}

/* the same of the distance itself at the point moved by r U^(1/d) g / |g|, one draw an item: the
   ball's uniform law.  The generator and the normals are NumPy's own, in C; all g are drawn first,
   into drawn (users x each x d), as NumPy draws them. */
void user_smoothed(bitgen_t *generator, const double *items, const double *point, size_t users,
                   size_t each, size_t d, double ball, double lipschitz, double *drawn,
                   double *out) {
    double gradient[64];
    for (size_t k = 0; k < users * each * d; k++) drawn[k] = random_standard_normal(generator);
    for (size_t u = 0; u < users; u++) {
        double *mean = out + u * d;
        for (size_t k = 0; k < d; k++) mean[k] = 0.0;
        for (size_t i = 0; i < each; i++) {
            const double *z = items + (u * each + i) * d, *g = drawn + (u * each + i) * d;
            double length = 0.0, square = 0.0;
            for (size_t k = 0; k < d; k++) length += g[k] * g[k];
            double shift = ball * pow(generator->next_double(generator->state), 1.0 / (double)d);
            shift /= sqrt(length);
            for (size_t k = 0; k < d; k++) gradient[k] = point[k] + shift * g[k] - z[k];
            for (size_t k = 0; k < d; k++) square += gradient[k] * gradient[k];
            double norm = sqrt(square);
            if (!isfinite(norm)) continue;
            double weight = 1.0 / (norm > 0.0 ? norm : 1.0);
            double unit = norm > 0.0 ? 1.0 : 0.0;
            if (unit > lipschitz) weight *= lipschitz / unit;
            for (size_t k = 0; k < d; k++) mean[k] += weight * gradient[k];
        }
        for (size_t k = 0; k < d; k++) mean[k] /= (double)each;
    }
}

static double middle_of_five(const double *values) {
    double sorted[5];
    for (size_t i = 0; i < 5; i++) {
        size_t j = i;
        for (; j > 0 && sorted[j - 1] > values[i]; j--) sorted[j] = sorted[j - 1];
        sorted[j] = values[i];
    }
    return sorted[2];
}

static double cut(double value, double low, double high) {
    return value < low ? low : value > high ? high : value;
}

static double sign_of(double value) { return (double)((value > 0.0) - (value < 0.0)); }

/* sum_j |theta_j - x_j| / sqrt(d) + weight/2 ||theta - centre||^2 over a box, items' x_j at +-level
   in a share for each of n users: the minimiser, and how far each user's subgradient there is from
   their mean, (trials, n); d is at most 64 */
void shares_norms(const double *rows, const double *centres, size_t trials, size_t n, size_t d,
                  double weight, double level, double half_width, double *out) {
    double mean[64], low[64], high[64], centre[64];
    double root = sqrt((double)d);
    for (size_t k = 0; k < d; k++) mean[k] = 0.0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < d; k++) {
            double share = rows[i * d + k];
            mean[k] += isnan(share) ? 0.5 : cut(share, 0.0, 1.0);
        }
    for (size_t k = 0; k < d; k++) mean[k] /= (double)n;
    for (size_t t = 0; t < trials; t++) {
        const double *c = centres + t * d;
        for (size_t k = 0; k < d; k++) {
            double five[5] = {
                (weight * c[k] + 1.0 / root) / weight,
                (weight * c[k] + (2.0 * mean[k] - 1.0) / root) / weight,
                (weight * c[k] - 1.0 / root) / weight, -level, level,
            };
            double point = cut(middle_of_five(five), -half_width, half_width);
            double drag = root * weight * (point - c[k]);
            low[k] = point == -level ? cut((mean[k] - drag) / (1.0 - mean[k]), -1.0, 1.0)
                                     : sign_of(point + level);
            high[k] = point == level ? cut((mean[k] - 1.0 - drag) / mean[k], -1.0, 1.0)
                                     : sign_of(point - level);
            if (isnan(low[k])) low[k] = 0.0;
            if (isnan(high[k])) high[k] = 0.0;
            centre[k] = 0.0;
        }
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < d; k++) {
                double share = rows[i * d + k];
                share = isnan(share) ? 0.5 : cut(share, 0.0, 1.0);
                centre[k] += (low[k] + share * (high[k] - low[k])) / root;
            }
        for (size_t k = 0; k < d; k++) centre[k] /= (double)n;
        for (size_t i = 0; i < n; i++) {
            double square = 0.0;
            for (size_t k = 0; k < d; k++) {
                double share = rows[i * d + k];
                share = isnan(share) ? 0.5 : cut(share, 0.0, 1.0);
                double away = (low[k] + share * (high[k] - low[k])) / root - centre[k];
                square += away * away;
            }
            out[t * n + i] = sqrt(square);
        }
    }
}
