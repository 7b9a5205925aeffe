import { describe, expect, it } from 'vitest';
import { attend, entropy, maskedSoftmax, meanNorm, meanOfHeads, nucleus, pooled, weightedSum } from '../src/lib/equations';

const q = Float32Array.of(1, 2);
const keys = [Float32Array.of(1, 0), Float32Array.of(0, 1), Float32Array.of(2, 2)];

describe('attention of one query', () => {
  it('is softmax(q k / sqrt(d))', () => {
    const steps = attend(q, keys, null, null, { scale: true, mask: true, positions: true });
    expect(steps.map((step) => step.product)).toEqual([1, 2, 6]);
    const raised = [1, 2, 6].map((each) => Math.exp(each / Math.SQRT2));
    const total = raised[0] + raised[1] + raised[2];
    steps.forEach((step, j) => expect(step.weight).toBeCloseTo(raised[j] / total, 12));
  });
  it('changes when scale, mask or bias are switched off', () => {
    const mask = Float32Array.of(1, 1, 0);
    const bias = Float32Array.of(0, 3, 0);
    const on = { scale: true, mask: true, positions: true };
    expect(attend(q, keys, bias, mask, on)[2].weight).toBe(0);
    expect(attend(q, keys, bias, mask, { ...on, mask: false })[2].weight).toBeGreaterThan(0.4);
    expect(attend(q, keys, bias, mask, on)[1].biased).toBeCloseTo(2 / Math.SQRT2 + 3);
    expect(attend(q, keys, bias, mask, { ...on, positions: false })[1].biased).toBeCloseTo(2 / Math.SQRT2);
    expect(attend(q, keys, null, null, { ...on, scale: false })[2].scaled).toBe(6);
  });
  it('gives zeros where no key is allowed', () => {
    expect(maskedSoftmax([1, 2], [false, false])).toEqual([0, 0]);
  });
  it('does not overflow', () => {
    expect(maskedSoftmax([1000, 1000], [true, true])).toEqual([0.5, 0.5]);
  });
  it('sums the values', () => {
    expect(Array.from(weightedSum([0.5, 0.25, 0.25], keys))).toEqual([1, 0.75]);
  });
});

describe('summaries', () => {
  it('entropy', () => {
    expect(entropy([0.5, 0.5])).toBeCloseTo(Math.LN2);
    expect(entropy([1, 0])).toBe(0);
  });
  it('nucleus', () => {
    expect(nucleus([0.5, 0.3, 0.1], 0.79)).toBe(2);
    expect(nucleus([0.5, 0.3, 0.1], 0.5)).toBe(1);
    expect(nucleus([0.5, 0.3], 0.99)).toBe(2);
  });
  it('mean norm', () => {
    expect(meanNorm({ shape: [2, 2], values: Float32Array.of(3, 4, 0, 1) })).toBe(3);
  });
  it('mean of heads', () => {
    const weights = { shape: [2, 1, 2], values: Float32Array.of(1, 0, 0, 1) };
    expect(Array.from(meanOfHeads(weights))).toEqual([0.5, 0.5]);
  });
  it('keeps the largest where cells are joined', () => {
    const made = pooled(Float32Array.of(0, 1, 2, 3, 4, 5, 6, 7, 8), 3, 3, 2);
    expect([made.rows, made.columns, ...made.values]).toEqual([2, 2, 4, 5, 7, 8]);
  });
});
