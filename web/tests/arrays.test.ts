import { deflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { at, fromHalf, unpack } from '../src/data/arrays';

const pack = (bytes: number[]) => deflateSync(Uint8Array.from(bytes)).toString('base64');

describe('arrays', () => {
  it('reads half floats', () => {
    expect([0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0x8000].map(fromHalf)).toEqual([1, -2, 0.333251953125, 2 ** -24, 65504, -0]);
    expect(fromHalf(0x7c00)).toBe(Infinity);
    expect(fromHalf(0x7e00)).toBeNaN();
  });
  it('unpacks both types', async () => {
    const halves = await unpack({ shape: [2], type: 'f16', data: pack([0x00, 0x3c, 0x00, 0xc0]) });
    expect(Array.from(halves.values)).toEqual([1, -2]);
    const bytes = await unpack({ shape: [1, 2], type: 'u8', data: pack([255, 0]) });
    expect(Array.from(bytes.values)).toEqual([1, 0]);
  });
  it('takes a part at its first indices', () => {
    const array = { shape: [2, 2, 2], values: Float32Array.from([0, 1, 2, 3, 4, 5, 6, 7]) };
    expect(Array.from(at(array, 1))).toEqual([4, 5, 6, 7]);
    expect(Array.from(at(array, 1, 0))).toEqual([4, 5]);
  });
});
