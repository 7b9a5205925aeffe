// Arrays as the Python side packs them: base64 of zlib of little-endian numbers.

export interface PackedArray {
  shape: number[];
  type: 'f16' | 'u8';
  data: string;
}

export interface NumberArray {
  shape: number[];
  values: Float32Array;
}

/** A half-precision number from its 16 bits. */
export function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function unpack(array: PackedArray): Promise<NumberArray> {
  const raw = await inflate(Uint8Array.from(atob(array.data), (letter) => letter.charCodeAt(0)));
  const size = array.shape.reduce((product, length) => product * length, 1);
  const values = new Float32Array(size);
  if (array.type === 'u8') {
    for (let i = 0; i < size; i++) values[i] = raw[i] / 255;
  } else {
    for (let i = 0; i < size; i++) values[i] = fromHalf(raw[2 * i] | (raw[2 * i + 1] << 8));
  }
  return { shape: array.shape, values };
}

/** The part of an array at its first index, or at its first indices. */
export function at(array: NumberArray, ...indices: number[]): Float32Array {
  let start = 0;
  let size = array.values.length;
  indices.forEach((index, axis) => {
    size /= array.shape[axis];
    start += index * size;
  });
  return array.values.subarray(start, start + size);
}
