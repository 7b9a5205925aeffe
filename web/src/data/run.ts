// The data of a page of runs. The Python side is qkv/visual/see/run.py.
import { type NumberArray, type PackedArray, unpack } from './arrays';

/** [update, value] */
export type Curve = [number, number][];

interface PairOf<Values> {
  src: string[];
  tgt: string[];
  /** [H, T, S] of each decoder layer. */
  layers: Values[];
}

interface SnapshotOf<Values> {
  update: number;
  pairs: PairOf<Values>[];
  states: { [side: string]: number[] };
}

interface RunOf<Values> {
  name: string;
  updates: number;
  epochs: number;
  training: { [name: string]: Curve };
  validation: { [name: string]: Curve };
  best: number[];
  gradients: { [layer: string]: Curve };
  snapshots: SnapshotOf<Values>[];
}

export type PackedRun = RunOf<PackedArray>;
export type SeenRun = RunOf<NumberArray>;
export type Snapshot = SnapshotOf<NumberArray>;

export async function readRun(packed: PackedRun): Promise<SeenRun> {
  const read = (snapshot: SnapshotOf<PackedArray>) =>
    Promise.all(snapshot.pairs.map(async (pair) => ({ ...pair, layers: await Promise.all(pair.layers.map(unpack)) }))).then(
      (pairs): Snapshot => ({ ...snapshot, pairs }),
    );
  return { ...packed, snapshots: await Promise.all(packed.snapshots.map(read)) };
}

/** Such as { side: 'encoder', number: 2 } of encoder.layers.2; the rest of a model has no number. */
export function placeOf(layer: string): { side: 'encoder' | 'decoder' | 'other'; number: number | null } {
  const found = /^(?:(.*)\.)?layers\.(\d+)$/.exec(layer);
  if (!found) return { side: 'other', number: null };
  return { side: found[1]?.includes('encoder') ? 'encoder' : 'decoder', number: Number(found[2]) };
}
