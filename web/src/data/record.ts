// The data of a page. The Python side is qkv/visual/see/record.py.
import { type NumberArray, type PackedArray, unpack } from './arrays';

export type Side = 'encoder' | 'decoder' | 'cross';
export const SIDES: Side[] = ['encoder', 'decoder', 'cross'];

interface SublayerOf<Index> {
  x: Index;
  h: Index;
  out: Index;
  result: Index;
}

interface AttentionOf<Values, Index> {
  name: string;
  side: Side;
  layer: number;
  weights: Values;
  mask: Values | null;
  heads: { q: Values; k: Values; v: Values; bias: Values | null; joined: Values | null } | null;
  sublayer: SublayerOf<Index> | null;
}

interface FeedForwardOf<Index> extends SublayerOf<Index> {
  side: 'encoder' | 'decoder';
  layer: number;
  name: string;
}

export interface Box {
  name: string;
  title: string;
  column: 'encoder' | 'decoder' | 'output';
  layer: number | null;
  equation: string;
  source: string;
  parameters: number;
  shapes: [string, string][];
}

export interface BeamNode {
  label: string;
  total: number;
  parent: number;
  step: number;
  place: number;
  finished: boolean;
  best: boolean;
  score: number | null;
}

export interface EmbeddedToken {
  token: string;
  x: number;
  y: number;
  neighbours: [string, number][];
}

interface RecordOf<Values, Index> {
  model: {
    name: string;
    kind: string;
    parameters: number;
    vocabulary: [number, number];
    settings: { [key: string]: string | number };
  };
  search: { kind: string; [key: string]: unknown };
  text: string;
  output: string;
  score: number;
  ended: boolean;
  src: string[];
  read: string[];
  written: string[];
  probabilities: number[];
  candidates: [string, number][][];
  beam: BeamNode[];
  passes: [string, number, boolean][][];
  drafts: [number, string[], string, string[]][];
  delays: [string[], number[]] | null;
  embedded: [EmbeddedToken[], EmbeddedToken[]];
  copied: Values | null;
  halted: number[][];
  attentions: AttentionOf<Values, Index>[];
  feed_forwards: FeedForwardOf<Index>[];
  boxes: Box[];
  positions: { kind: string; added: Values | null; panels: [string, Values, Values][] } | null;
  wiring: Values | null;
}

export type PackedRecord = RecordOf<PackedArray, number> & { vectors: PackedArray[] };
export type SeenRecord = RecordOf<NumberArray, NumberArray>;
export type Attention = AttentionOf<NumberArray, NumberArray>;
export type FeedForward = FeedForwardOf<NumberArray>;

export interface PageData {
  format: number;
  records: PackedRecord[];
}

async function maybe(array: PackedArray | null): Promise<NumberArray | null> {
  return array && unpack(array);
}

function sublayer<Part extends SublayerOf<number>>(part: Part, pool: NumberArray[]) {
  return { ...part, x: pool[part.x], h: pool[part.h], out: pool[part.out], result: pool[part.result] };
}

export async function readRecord(packed: PackedRecord): Promise<SeenRecord> {
  const { vectors, ...rest } = packed;
  const pool = await Promise.all(vectors.map(unpack));
  const attentions = await Promise.all(
    packed.attentions.map(async (each): Promise<Attention> => ({
      ...each,
      weights: await unpack(each.weights),
      mask: await maybe(each.mask),
      heads: each.heads && {
        q: await unpack(each.heads.q),
        k: await unpack(each.heads.k),
        v: await unpack(each.heads.v),
        bias: await maybe(each.heads.bias),
        joined: await maybe(each.heads.joined),
      },
      sublayer: each.sublayer && sublayer(each.sublayer, pool),
    })),
  );
  const panels = packed.positions?.panels ?? [];
  return {
    ...rest,
    attentions,
    copied: await maybe(packed.copied),
    wiring: await maybe(packed.wiring),
    feed_forwards: packed.feed_forwards.map((each) => sublayer(each, pool)),
    positions: packed.positions && {
      kind: packed.positions.kind,
      added: await maybe(packed.positions.added),
      panels: await Promise.all(
        panels.map(async ([title, values, seen]): Promise<[string, NumberArray, NumberArray]> => [
          title,
          await unpack(values),
          await unpack(seen),
        ]),
      ),
    },
  };
}

export function layersOf(record: SeenRecord, side: Side): Attention[] {
  return record.attentions.filter((each) => each.side === side);
}

export function sidesOf(record: SeenRecord): Side[] {
  return SIDES.filter((side) => layersOf(record, side).length > 0);
}

/** What the rows (queries) and the columns (keys) of an attention stand for. */
export function labelsOf(record: SeenRecord, side: Side): { rows: string[]; columns: string[] } {
  if (side === 'encoder') return { rows: record.src, columns: record.src };
  return { rows: record.written, columns: side === 'cross' ? record.src : record.read };
}
