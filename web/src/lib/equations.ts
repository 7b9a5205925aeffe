// The equations of attention for one query, as in qkv/functional/attention.py.

export function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** exp(s_j) / Σ exp(s_j') over the keys that the mask allows; zeros if it allows none. */
export function maskedSoftmax(scores: number[], allowed: boolean[]): number[] {
  const best = Math.max(...scores.filter((_, j) => allowed[j]));
  const raised = scores.map((score, j) => (allowed[j] ? Math.exp(score - best) : 0));
  const total = raised.reduce((sum, each) => sum + each, 0);
  return raised.map((each) => (total ? each / total : 0));
}

export interface KeyStep {
  product: number;
  scaled: number;
  biased: number;
  allowed: boolean;
  weight: number;
}

export interface Switches {
  scale: boolean;
  mask: boolean;
  positions: boolean;
}

/** Each key of one query: q·k, / √d_k, + bias, mask, softmax. */
export function attend(
  q: Float32Array,
  keys: Float32Array[],
  bias: Float32Array | null,
  mask: Float32Array | null,
  on: Switches,
): KeyStep[] {
  const products = keys.map((key) => dot(q, key));
  const scaled = products.map((product) => (on.scale ? product / Math.sqrt(q.length) : product));
  const biased = scaled.map((score, j) => (on.positions && bias ? score + bias[j] : score));
  const allowed = keys.map((_, j) => !on.mask || !mask || mask[j] > 0.5);
  const weights = maskedSoftmax(biased, allowed);
  return keys.map((_, j) => ({
    product: products[j],
    scaled: scaled[j],
    biased: biased[j],
    allowed: allowed[j],
    weight: weights[j],
  }));
}

/** Σ_j a_j v_j */
export function weightedSum(weights: number[], values: Float32Array[]): Float32Array {
  const sum = new Float32Array(values[0]?.length ?? 0);
  values.forEach((value, j) => value.forEach((each, i) => (sum[i] += weights[j] * each)));
  return sum;
}

/** −Σ a ln a, in nats. */
export function entropy(weights: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < weights.length; i++) if (weights[i] > 0) sum -= weights[i] * Math.log(weights[i]);
  return sum;
}

/** The mean over the rows of a matrix of weights, each taken to sum to 1. */
export function meanEntropy(values: Float32Array, rows: number, columns: number): number {
  let sum = 0;
  for (let r = 0; r < rows; r++) {
    const row = values.subarray(r * columns, (r + 1) * columns);
    const total = row.reduce((all, each) => all + each, 0);
    if (total > 0) sum += entropy(row.map((each) => each / total));
  }
  return sum / rows;
}

/** How many of these probabilities, sorted from the largest, reach p together. */
export function nucleus(probabilities: number[], p: number): number {
  let sum = 0;
  for (let i = 0; i < probabilities.length; i++) {
    sum += probabilities[i];
    if (sum >= p) return i + 1;
  }
  return probabilities.length;
}

/** The mean over heads of weights [H, Q, K]. */
export function meanOfHeads(weights: { shape: number[]; values: Float32Array }): Float32Array {
  const [heads, rows, columns] = weights.shape;
  const mean = new Float32Array(rows * columns);
  for (let h = 0; h < heads; h++)
    for (let i = 0; i < mean.length; i++) mean[i] += weights.values[h * mean.length + i] / heads;
  return mean;
}

/** A matrix of at most `most` rows and columns; each cell is the largest of those that it stands for. */
export function pooled(values: Float32Array, rows: number, columns: number, most: number) {
  const height = Math.min(rows, most);
  const width = Math.min(columns, most);
  const out = new Float32Array(height * width);
  for (let r = 0; r < rows; r++)
    for (let c = 0; c < columns; c++) {
      const place = Math.floor((r * height) / rows) * width + Math.floor((c * width) / columns);
      out[place] = Math.max(out[place], values[r * columns + c]);
    }
  return { values: out, rows: height, columns: width };
}

/** The mean length of the rows of a matrix [n, D]. */
export function meanNorm(states: { shape: number[]; values: Float32Array }): number {
  const [rows, width] = states.shape;
  let sum = 0;
  for (let r = 0; r < rows; r++) {
    const row = states.values.subarray(r * width, (r + 1) * width);
    sum += Math.sqrt(dot(row, row));
  }
  return sum / rows;
}
