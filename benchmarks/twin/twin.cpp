// The C++ twin: one SGD iteration of the streaming factor solve, as a C++ programmer would write it.
//
// It is the yardstick of benchmarks/sgd_iteration.py, so it does the work the library does and no more:
// draw p listed cells and q unlisted zeros (rejecting listed cells), add the gradient of every mode, add
// the folded history (errata.md row 15), take one Adam step with a lower bound. One thread, float64.
//
// Layout: all factor matrices stacked in one row-major array, rows padded with zeros to 4 doubles, so
// that a row is a whole number of 32-byte vectors. Compiled with -O3 -march=native and the same relaxed
// floating-point rules as the library's kernels (see __init__.py).

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using u64 = std::uint64_t;
using i64 = std::int64_t;
typedef double vec __attribute__((vector_size(32)));
constexpr int LANES = 4;
constexpr int MAX_MODES = 8;
constexpr int BATCH = 16;         // samples drawn ahead, so that the rows they need can be prefetched
constexpr int PANEL = 32;         // factor rows kept in the first-level cache by the matrix products
constexpr double EPSILON = 1e-10; // inside the logarithms, as in losses.py

enum Loss { GAUSSIAN = 0, POISSON = 1, BERNOULLI_ODDS = 2 };

template <int LOSS> inline double slope(double x, double m) {
    if (LOSS == GAUSSIAN) return 2.0 * (m - x);
    if (LOSS == POISSON) return 1.0 - x / (m + EPSILON);
    return 1.0 / (1.0 + m) - x / (m + EPSILON);
}

// ---- random numbers: splitmix64 of a counter, no state ---------------------------------------------

constexpr u64 GOLDEN = 0x9E3779B97F4A7C15ull;

inline u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// Sample `number` of `count` draws from its own share of the range: still unbiased, less noisy than
// independent draws, and in ascending order, which caches like. The library does the same.
inline u64 spread(u64 word, u64 number, u64 share) {
    return number * share + (u64)(((unsigned __int128)word * share) >> 64);
}

inline u64 below(u64 word, u64 n) { return (u64)(((unsigned __int128)word * n) >> 64); }

// ---- memory ------------------------------------------------------------------------------------------

double *allocate(i64 count) {
    // Large arrays ask for huge pages, as NumPy does for its own.
    const std::size_t bytes = std::max<std::size_t>(count * sizeof(double), 64);
    const std::size_t alignment = bytes >= (4u << 20) ? (2u << 20) : 64;
    void *memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (alignment > 64) madvise(memory, bytes, MADV_HUGEPAGE);
    std::memset(memory, 0, bytes);
    return static_cast<double *>(memory);
}

inline vec load(const double *p) { return *reinterpret_cast<const vec *>(p); }
inline void store(double *p, vec v) { *reinterpret_cast<vec *>(p) = v; }
inline vec splat(double x) { return vec{x, x, x, x}; }

// ---- which cells are listed ----------------------------------------------------------------------------

struct Membership {
    std::vector<u64> bits;  // exact bitmap of cells, or a filter in front of the hash table
    std::vector<u64> table; // open addressing, linear probing; key + 1, 0 = empty
    int filter_shift = 0, table_shift = 0;
    bool exact = true;

    void build(const std::vector<u64> &cells, u64 size) {
        constexpr u64 LARGEST_BITMAP = 64ull << 23; // bits in 64 MB
        exact = size <= LARGEST_BITMAP;
        if (exact) {
            bits.assign(size / 64 + 1, 0);
            for (u64 cell : cells) bits[cell >> 6] |= 1ull << (cell & 63);
            return;
        }
        int log_table = 4;
        while ((1ull << log_table) < 2 * cells.size()) ++log_table;
        const int log_filter = log_table + 3;
        filter_shift = 64 - log_filter;
        table_shift = 64 - log_table;
        bits.assign((1ull << log_filter) / 64 + 1, 0);
        table.assign(1ull << log_table, 0);
        for (u64 cell : cells) {
            const u64 hash = mix(cell);
            const u64 bit = hash >> filter_shift;
            bits[bit >> 6] |= 1ull << (bit & 63);
            u64 slot = (hash * GOLDEN) >> table_shift;
            while (table[slot]) slot = (slot + 1) & (table.size() - 1);
            table[slot] = cell + 1;
        }
    }

    inline bool contains(u64 cell) const {
        if (exact) return bits[cell >> 6] >> (cell & 63) & 1;
        const u64 hash = mix(cell);
        const u64 bit = hash >> filter_shift;
        if (!(bits[bit >> 6] >> (bit & 63) & 1)) return false;
        u64 slot = (hash * GOLDEN) >> table_shift;
        while (table[slot]) {
            if (table[slot] == cell + 1) return true;
            slot = (slot + 1) & (table.size() - 1);
        }
        return false;
    }
};

// ---- small matrix products --------------------------------------------------------------------------

// Tile of 4 x (4 * V): out[i0..i0+4, j0..] += sum over rows n of left[n, i] * right[n, j].
template <int V>
inline void gram_tile(const double *left, const double *right, double *out, int rows, int width) {
    vec sum[4][V] = {};
    for (int n = 0; n < rows; ++n) {
        vec b[V];
        for (int v = 0; v < V; ++v) b[v] = load(right + n * width + v * LANES);
        for (int i = 0; i < 4; ++i) {
            const vec a = splat(left[n * width + i]);
            for (int v = 0; v < V; ++v) sum[i][v] += a * b[v];
        }
    }
    for (int i = 0; i < 4; ++i)
        for (int v = 0; v < V; ++v) {
            double *target = out + i * width + v * LANES;
            store(target, load(target) + sum[i][v]);
        }
}

// Tile of ROWS x (4 * V): out += a B - abar C.
template <int ROWS, int V>
inline void product_tile(const double *a, const double *B, const double *abar, const double *C,
                         double *out, int width) {
    vec sum[ROWS][V];
    for (int i = 0; i < ROWS; ++i)
        for (int v = 0; v < V; ++v) sum[i][v] = load(out + i * width + v * LANES);
    for (int r = 0; r < width; ++r) {
        vec b[V];
        for (int v = 0; v < V; ++v) b[v] = load(B + r * width + v * LANES);
        for (int i = 0; i < ROWS; ++i) {
            const vec x = splat(a[i * width + r]);
            for (int v = 0; v < V; ++v) sum[i][v] += x * b[v];
        }
    }
    for (int r = 0; r < width; ++r) {
        vec c[V];
        for (int v = 0; v < V; ++v) c[v] = load(C + r * width + v * LANES);
        for (int i = 0; i < ROWS; ++i) {
            const vec x = splat(abar[i * width + r]);
            for (int v = 0; v < V; ++v) sum[i][v] -= x * c[v];
        }
    }
    for (int i = 0; i < ROWS; ++i)
        for (int v = 0; v < V; ++v) store(out + i * width + v * LANES, sum[i][v]);
}

// Split `vectors` into tiles of 3 and 2 (1 only when it must), the shapes that fill 16 registers.
inline int next_tile(int vectors) { return vectors == 4 || vectors == 2 ? 2 : vectors >= 3 ? 3 : 1; }

void gram_panel(const double *left, const double *right, double *out, int rows, int width, bool symmetric) {
    for (int i = 0; i < width; i += 4) {
        int j = symmetric ? i : 0;
        while (j < width) {
            const int v = next_tile((width - j) / LANES);
            if (v == 3) gram_tile<3>(left + i, right + j, out + i * width + j, rows, width);
            else if (v == 2) gram_tile<2>(left + i, right + j, out + i * width + j, rows, width);
            else gram_tile<1>(left + i, right + j, out + i * width + j, rows, width);
            j += v * LANES;
        }
    }
}

template <int ROWS>
inline void product_rows(const double *a, const double *B, const double *abar, const double *C, double *out,
                         int width, int j, int v) {
    if (v == 3) product_tile<ROWS, 3>(a, B + j, abar, C + j, out + j, width);
    else if (v == 2) product_tile<ROWS, 2>(a, B + j, abar, C + j, out + j, width);
    else product_tile<ROWS, 1>(a, B + j, abar, C + j, out + j, width);
}

void product_panel(const double *a, const double *B, const double *abar, const double *C, double *out,
                   int rows, int width) {
    for (int j = 0; j < width;) {
        const int v = next_tile((width - j) / LANES);
        int n = 0;
        for (; n + 4 <= rows; n += 4)
            product_rows<4>(a + n * width, B, abar + n * width, C, out + n * width, width, j, v);
        for (; n < rows; ++n)
            product_rows<1>(a + n * width, B, abar + n * width, C, out + n * width, width, j, v);
        j += v * LANES;
    }
}

// Fortran dgemm, handed over by the benchmark from SciPy's OpenBLAS (the one NumPy and Numba call too).
using Dgemm = void (*)(char *, char *, int *, int *, int *, double *, double *, int *, double *, int *,
                       double *, double *, int *);

// Row-major out (m x n) = alpha * op(left) right + beta * out; column-major dgemm sees the transposes.
void blas(Dgemm dgemm, bool transpose_left, i64 m, int n, i64 k, double alpha, const double *left, int ldl,
          const double *right, int ldr, double beta, double *out, int ldo) {
    char plain = 'N', other = transpose_left ? 'T' : 'N';
    int M = n, N = (int)m, K = (int)k;
    dgemm(&plain, &other, &M, &N, &K, &alpha, const_cast<double *>(right), &ldr, const_cast<double *>(left),
          &ldl, &beta, out, &ldo);
}

// ---- the iteration ----------------------------------------------------------------------------------

struct Twin {
    int modes, rank, width, loss;
    i64 dims[MAX_MODES], offset[MAX_MODES + 1];
    const std::int32_t *index; // (listed, modes)
    const double *value;       // (listed,), or the whole dense array where index is null
    i64 listed, draws, zeros;  // draws >= listed: every listed cell once, weight 1
    double weight_listed, weight_zero;
    Membership membership;
    double *A, *Abar, *G, *U, *V;       // (rows, width)
    double *S, *B, *C;                  // (width, width)
    double *scale;                      // (width,): the slice's weights s
    int head;                           // the shortest mode, kept multiplied by the weights
    double *H, *HG;                     // (dims[head], width): its scaled rows, and its gradient / s
    double *factor[MAX_MODES], *slopes[MAX_MODES]; // by place, head first: where rows are read, added
    int place[MAX_MODES];               // place of each mode
    double *gram[MAX_MODES], *cross[MAX_MODES];
    double rate, beta1, beta2, epsilon, lower;
    u64 seed;
    i64 step;
    Dgemm dgemm;
};

struct Batch {
    i64 row[BATCH][MAX_MODES]; // row numbers within each mode, by place
    double x[BATCH], weight[BATCH];
    int count = 0;
};

// Mixed-radix digits of one 64-bit word: the high half of each product is an index, the low half the
// remaining fraction, so that a cell costs one hash whatever the number of modes.
template <int D> inline u64 cell_at(const Twin &t, u64 word, i64 *row) {
    u64 cell = 0;
    for (int k = 0; k < D; ++k) {
        const unsigned __int128 wide = (unsigned __int128)word * (u64)t.dims[k];
        const u64 digit = (u64)(wide >> 64);
        word = (u64)wide;
        row[t.place[k]] = (i64)digit;
        cell = cell * (u64)t.dims[k] + digit;
    }
    return cell;
}

template <int D> inline void draw_listed(const Twin &t, u64 key, i64 first, Batch &batch) {
    const bool all = t.index && t.draws >= t.listed;
    batch.count = (int)std::min<i64>(BATCH, (all ? t.listed : t.draws) - first);
    const u64 share = ~0ull / (u64)t.draws;
    for (int b = 0; b < batch.count; ++b) {
        const i64 s = first + b;
        batch.weight[b] = t.weight_listed;
        if (!t.index) {
            const u64 word = spread(mix(key + GOLDEN * (u64)(s + 1)), (u64)s, share);
            batch.x[b] = t.value[cell_at<D>(t, word, batch.row[b])];
            continue;
        }
        const u64 word = spread(mix(key + GOLDEN * (u64)(s + 1)), (u64)s, share);
        const i64 n = all ? s : (i64)below(word, (u64)t.listed);
        for (int k = 0; k < D; ++k) batch.row[b][t.place[k]] = t.index[n * D + k];
        batch.x[b] = t.value[n];
    }
}

template <int D> inline void draw_zeros(const Twin &t, u64 key, i64 first, Batch &batch) {
    batch.count = (int)std::min<i64>(BATCH, t.zeros - first);
    const u64 share = ~0ull / (u64)t.zeros;
    for (int b = 0; b < batch.count; ++b) {
        u64 counter = (u64)(first + b) + 1;
        u64 word = spread(mix(key + GOLDEN * counter), (u64)(first + b), share);
        while (t.membership.contains(cell_at<D>(t, word, batch.row[b])))
            word = mix(key + GOLDEN * (counter += (u64)t.zeros));
        batch.x[b] = 0.0;
        batch.weight[b] = t.weight_zero;
    }
}

template <int D> inline void prefetch(const Twin &t, const Batch &batch) {
    for (int b = 0; b < batch.count; ++b)
        for (int k = 0; k < D; ++k)
            for (int r = 0; r < t.width; r += 8) {
                __builtin_prefetch(t.factor[k] + batch.row[b][k] * t.width + r, 0);
                __builtin_prefetch(t.slopes[k] + batch.row[b][k] * t.width + r, 1);
            }
}

// Three short loops instead of one long one: the model values of a batch do not wait for each other, so
// the latency of the sum and of the division is hidden; the rows stay in the first-level cache meanwhile.
template <int D, int LOSS> inline void add_gradient(const Twin &t, const Batch &batch) {
    const int width = t.width;
    double y[BATCH];
    for (int b = 0; b < batch.count; ++b) {
        const double *a[D];
        for (int k = 0; k < D; ++k) a[k] = t.factor[k] + batch.row[b][k] * width;
        vec sum = splat(0.0);
        for (int r = 0; r < width; r += LANES) {
            vec z = load(a[0] + r);
            for (int k = 1; k < D; ++k) z *= load(a[k] + r);
            sum += z;
        }
        y[b] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
    for (int b = 0; b < batch.count; ++b) y[b] = batch.weight[b] * slope<LOSS>(batch.x[b], y[b]);
    for (int b = 0; b < batch.count; ++b) {
        const double *a[D];
        double *g[D];
        for (int k = 0; k < D; ++k) {
            a[k] = t.factor[k] + batch.row[b][k] * width;
            g[k] = t.slopes[k] + batch.row[b][k] * width;
        }
        const vec yb = splat(y[b]);
        for (int r = 0; r < width; r += LANES) {
            vec row[D], before[D]; // before[k]: y times the rows of the places below k
            for (int k = 0; k < D; ++k) row[k] = load(a[k] + r);
            before[0] = yb;
            for (int k = 1; k < D; ++k) before[k] = before[k - 1] * row[k - 1];
            vec after = row[D - 1];
            store(g[D - 1] + r, load(g[D - 1] + r) + before[D - 1]);
            for (int k = D - 2; k >= 0; --k) {
                store(g[k] + r, load(g[k] + r) + before[k] * after);
                if (k) after *= row[k];
            }
        }
    }
}

void fill_head(Twin &t) {
    const double *a = t.A + t.offset[t.head] * t.width;
    for (i64 n = 0; n < t.dims[t.head]; ++n)
        for (int r = 0; r < t.width; ++r) t.H[n * t.width + r] = a[n * t.width + r] * t.scale[r];
}

void finish_head(Twin &t) {
    double *g = t.G + t.offset[t.head] * t.width;
    for (i64 n = 0; n < t.dims[t.head]; ++n)
        for (int r = 0; r < t.width; ++r) {
            g[n * t.width + r] = t.HG[n * t.width + r] * t.scale[r];
            t.HG[n * t.width + r] = 0.0;
        }
}

void mirror(double *matrix, int width) {
    for (int i = 0; i < width; ++i)
        for (int j = 0; j < i; ++j) matrix[i * width + j] = matrix[j * width + i];
}

// Gram matrices of every mode with itself and with its old self.
void grams(Twin &t) {
    const int width = t.width, square = width * width;
    for (int k = 0; k < t.modes; ++k) {
        const double *a = t.A + t.offset[k] * width, *abar = t.Abar + t.offset[k] * width;
        const i64 rows = t.dims[k];
        if (t.dgemm) {
            blas(t.dgemm, true, width, width, rows, 1.0, a, width, a, width, 0.0, t.gram[k], width);
            blas(t.dgemm, true, width, width, rows, 1.0, abar, width, a, width, 0.0, t.cross[k], width);
            continue;
        }
        std::memset(t.gram[k], 0, sizeof(double) * square);
        std::memset(t.cross[k], 0, sizeof(double) * square);
        for (i64 n = 0; n < rows; n += PANEL) {
            const int count = (int)std::min<i64>(PANEL, rows - n);
            gram_panel(a + n * width, a + n * width, t.gram[k], count, width, true);
            gram_panel(abar + n * width, a + n * width, t.cross[k], count, width, false);
        }
        mirror(t.gram[k], width);
    }
}

// B = S * product of the other modes' Grams, C likewise with the old factors.
void fold(Twin &t, int mode) {
    const int square = t.width * t.width;
    std::memcpy(t.B, t.S, sizeof(double) * square);
    std::memcpy(t.C, t.S, sizeof(double) * square);
    for (int j = 0; j < t.modes; ++j) {
        if (j == mode) continue;
        for (int i = 0; i < square; ++i) t.B[i] *= t.gram[j][i];
        for (int i = 0; i < square; ++i) t.C[i] *= t.cross[j][i];
    }
}

// G += A B - Abar C on rows first .. first + rows - 1 of the stacked array, all of one mode.
void add_history(Twin &t, i64 first, i64 rows) {
    const i64 e = first * t.width;
    if (!t.dgemm) return product_panel(t.A + e, t.B, t.Abar + e, t.C, t.G + e, (int)rows, t.width);
    const int w = t.width;
    blas(t.dgemm, false, rows, w, w, 1.0, t.A + e, w, t.B, w, 1.0, t.G + e, w);
    blas(t.dgemm, false, rows, w, w, -1.0, t.Abar + e, w, t.C, w, 1.0, t.G + e, w);
}

// One Adam step of elements first .. last - 1; it leaves the gradient zero for the next iteration.
void adam(Twin &t, i64 first, i64 last) {
    const double correction = 1.0 / (1.0 - std::pow(t.beta1, (double)t.step));
    const double second = 1.0 / (1.0 - std::pow(t.beta2, (double)t.step));
    const double rate = t.rate * correction, b1 = t.beta1, b2 = t.beta2;
    const double epsilon = t.epsilon, lower = t.lower, c1 = 1.0 - b1, c2 = 1.0 - b2;
    double *__restrict a = t.A, *__restrict u = t.U, *__restrict v = t.V, *__restrict g = t.G;
    for (i64 i = first; i < last; ++i) {
        const double ui = b1 * u[i] + c1 * g[i];
        const double vi = b2 * v[i] + c2 * g[i] * g[i];
        u[i] = ui;
        v[i] = vi;
        g[i] = 0.0;
        const double next = a[i] - rate * ui / (std::sqrt(vi * second) + epsilon);
        a[i] = next > lower ? next : lower;
    }
}

// History and step go panel by panel, so that large factors are read from memory once for both.
template <bool STEP> void finish(Twin &t) {
    grams(t);
    t.step += STEP;
    for (int k = 0; k < t.modes; ++k) {
        fold(t, k);
        const i64 panel = t.dgemm ? 512 : PANEL;
        for (i64 n = t.offset[k]; n < t.offset[k + 1]; n += panel) {
            const i64 rows = std::min(panel, t.offset[k + 1] - n);
            add_history(t, n, rows);
            if (STEP) adam(t, n * t.width, (n + rows) * t.width);
        }
    }
}

// `record`: where to note the draws (rows, x, weight), for the check against NumPy; null when timed.
struct Record {
    i64 *row;
    double *x, *weight;
    i64 count;
};

template <int D> inline void note(const Twin &t, const Batch &batch, Record *record) {
    for (int b = 0; b < batch.count; ++b, ++record->count) {
        for (int k = 0; k < D; ++k) record->row[record->count * D + k] = batch.row[b][t.place[k]];
        record->x[record->count] = batch.x[b];
        record->weight[record->count] = batch.weight[b];
    }
}

template <int D, int LOSS> void sample(Twin &t, Record *record) {
    fill_head(t);
    const u64 key_listed = mix(t.seed + GOLDEN * (u64)(2 * t.step + 1));
    const u64 key_zeros = mix(t.seed + GOLDEN * (u64)(2 * t.step + 2));
    const i64 listed = t.index ? std::min(t.draws, t.listed) : t.draws;
    const bool large = t.offset[D] * t.width * (i64)sizeof(double) > (1 << 20);
    Batch batch;
    for (i64 first = 0; first < listed; first += BATCH) {
        draw_listed<D>(t, key_listed, first, batch);
        if (large) prefetch<D>(t, batch);
        if (record) note<D>(t, batch, record);
        add_gradient<D, LOSS>(t, batch);
    }
    for (i64 first = 0; first < t.zeros; first += BATCH) {
        draw_zeros<D>(t, key_zeros, first, batch);
        if (large) prefetch<D>(t, batch);
        if (record) note<D>(t, batch, record);
        add_gradient<D, LOSS>(t, batch);
    }
    finish_head(t);
}

template <int D> void dispatch_loss(Twin &t, Record *record) {
    if (t.loss == GAUSSIAN) sample<D, GAUSSIAN>(t, record);
    else if (t.loss == POISSON) sample<D, POISSON>(t, record);
    else sample<D, BERNOULLI_ODDS>(t, record);
}

void dispatch(Twin &t, Record *record) {
    switch (t.modes) {
    case 1: return dispatch_loss<1>(t, record);
    case 2: return dispatch_loss<2>(t, record);
    case 3: return dispatch_loss<3>(t, record);
    case 4: return dispatch_loss<4>(t, record);
    case 5: return dispatch_loss<5>(t, record);
    default: return dispatch_loss<6>(t, record);
    }
}

} // namespace

// ---- what ctypes sees -------------------------------------------------------------------------------

extern "C" {

// The data arrays are borrowed and must outlive the twin; factors and weights are copied.
void *twin_create(int modes, const i64 *dims, int rank, int loss, const std::int32_t *index,
                  const double *value, i64 listed, i64 draws, i64 zeros, const double *factors,
                  const double *old_factors, const double *weights, const double *history_matrix, double rate,
                  double lower, u64 seed, void *dgemm) {
    Twin *t = new Twin();
    t->modes = modes;
    t->rank = rank;
    t->width = (rank + LANES - 1) / LANES * LANES;
    t->loss = loss;
    u64 size = 1;
    for (int k = 0; k < modes; ++k) {
        t->dims[k] = dims[k];
        t->offset[k + 1] = t->offset[k] + dims[k];
        size *= (u64)dims[k];
    }
    t->index = index;
    t->value = value;
    t->listed = listed;
    t->draws = draws;
    t->zeros = zeros;
    t->weight_listed = index && draws >= listed ? 1.0 : (double)listed / (double)draws;
    t->weight_zero = zeros ? (double)(size - (u64)listed) / (double)zeros : 0.0;
    if (zeros) {
        std::vector<u64> cells(listed);
        for (i64 n = 0; n < listed; ++n) {
            u64 cell = 0;
            for (int k = 0; k < modes; ++k) cell = cell * (u64)dims[k] + (u64)index[n * modes + k];
            cells[n] = cell;
        }
        t->membership.build(cells, size);
    }
    const i64 rows = t->offset[modes], count = rows * t->width, square = (i64)t->width * t->width;
    t->A = allocate(count);
    t->Abar = allocate(count);
    t->G = allocate(count);
    t->U = allocate(count);
    t->V = allocate(count);
    t->S = allocate(square);
    t->B = allocate(square);
    t->C = allocate(square);
    t->scale = allocate(t->width);
    for (i64 n = 0; n < rows; ++n) {
        std::copy_n(factors + n * rank, rank, t->A + n * t->width);
        std::copy_n(old_factors + n * rank, rank, t->Abar + n * t->width);
    }
    for (int r = 0; r < rank; ++r) std::copy_n(history_matrix + r * rank, rank, t->S + r * t->width);
    std::copy_n(weights, rank, t->scale);
    for (int k = 0; k < modes; ++k) {
        t->gram[k] = allocate(square);
        t->cross[k] = allocate(square);
    }
    t->head = (int)(std::min_element(t->dims, t->dims + modes) - t->dims);
    t->H = allocate(t->dims[t->head] * t->width);
    t->HG = allocate(t->dims[t->head] * t->width);
    t->factor[0] = t->H;
    t->slopes[0] = t->HG;
    t->place[t->head] = 0;
    for (int k = 0, next = 1; k < modes; ++k) {
        if (k == t->head) continue;
        t->factor[next] = t->A + t->offset[k] * t->width;
        t->slopes[next] = t->G + t->offset[k] * t->width;
        t->place[k] = next++;
    }
    t->rate = rate;
    t->beta1 = 0.9;
    t->beta2 = 0.999;
    t->epsilon = 1e-8;
    t->lower = lower;
    t->seed = seed;
    t->dgemm = reinterpret_cast<Dgemm>(dgemm);
    return t;
}

void twin_run(void *handle, i64 iterations) {
    Twin &t = *static_cast<Twin *>(handle);
    for (i64 i = 0; i < iterations; ++i) {
        dispatch(t, nullptr);
        finish<true>(t);
    }
}

// One gradient at the present factors, with the samples it used; returns their number.
i64 twin_gradient(void *handle, i64 *row, double *x, double *weight, double *out) {
    Twin &t = *static_cast<Twin *>(handle);
    Record record{row, x, weight, 0};
    dispatch(t, &record);
    finish<false>(t);
    for (i64 n = 0; n < t.offset[t.modes]; ++n) std::copy_n(t.G + n * t.width, t.rank, out + n * t.rank);
    std::memset(t.G, 0, sizeof(double) * t.offset[t.modes] * t.width);
    return record.count;
}

void twin_factors(void *handle, double *out) {
    Twin &t = *static_cast<Twin *>(handle);
    for (i64 n = 0; n < t.offset[t.modes]; ++n) std::copy_n(t.A + n * t.width, t.rank, out + n * t.rank);
}

void twin_destroy(void *handle) {
    Twin *t = static_cast<Twin *>(handle);
    for (double *p : {t->A, t->Abar, t->G, t->U, t->V, t->S, t->B, t->C, t->scale, t->H, t->HG}) std::free(p);
    for (int k = 0; k < t->modes; ++k) {
        std::free(t->gram[k]);
        std::free(t->cross[k]);
    }
    delete t;
}
}
