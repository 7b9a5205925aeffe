import { describe, expect, it } from 'vitest';
import type { Box, SeenRecord } from '../src/data/record';
import { diagram, inOrder, layersIn } from '../src/lib/diagram';

const box = (name: string, column: Box['column'], layer: number | null): Box => ({
  name, column, layer, title: name, equation: '', source: '', parameters: 0, shapes: [],
});
const layer = (side: 'encoder' | 'decoder', n: number, parts: string[]) => parts.map((part) => box(`${side}.layers.${n}.${part}`, side, n));
const boxes = [
  box('src_embedder', 'encoder', null),
  box('tgt_embedder', 'decoder', null),
  ...[0, 1].flatMap((n) => layer('encoder', n, ['attention', 'feed_forward', 'attention_residual', 'feed_forward_residual'])),
  ...layer('decoder', 0, ['attention', 'cross_attention', 'feed_forward', 'attention_residual', 'cross_residual', 'feed_forward_residual']),
  box('head', 'output', null),
];
const record = { boxes, model: { settings: { encoder_layers: 2, decoder_layers: 1 } } } as unknown as SeenRecord;

describe('the diagram', () => {
  it('shows one layer of each stack in the order of computation', () => {
    const parts = inOrder(layer('decoder', 0, ['feed_forward', 'cross_residual', 'attention_residual', 'cross_attention', 'attention', 'feed_forward_residual']));
    expect(parts.map((part) => part.name.split('.').at(-1))).toEqual(
      ['attention', 'attention_residual', 'cross_attention', 'cross_residual', 'feed_forward', 'feed_forward_residual'],
    );
    const made = diagram(record, 1);
    expect(made.placed.map((each) => each.box.name)).toContain('encoder.layers.1.attention');
    expect(made.placed.map((each) => each.box.name)).toContain('decoder.layers.0.cross_attention');
    expect(made.frames.map((frame) => frame.label)).toEqual(['layer 2 of 2', 'layer 1 of 1']);
    expect(layersIn(record, 'encoder')).toBe(2);
  });
  it('stays inside its frame, and no two boxes overlap', () => {
    const { placed, width, height } = diagram(record, 0);
    for (const a of placed) {
      expect(a.x >= 0 && a.y >= 0 && a.x + a.width <= width && a.y + a.height <= height).toBe(true);
      for (const b of placed) if (a !== b && a.x === b.x) expect(a.y + a.height <= b.y || b.y + b.height <= a.y).toBe(true);
    }
  });
  it('leads the memory to cross-attention', () => {
    const made = diagram(record, 0);
    const cross = made.placed.find((each) => each.box.name.endsWith('cross_attention'))!;
    expect(made.arrows.some((arrow) => arrow.points.at(-1)![0] === cross.x && arrow.points.length === 5)).toBe(true);
  });
  it('draws models of other kinds as a list of parts', () => {
    const other = { boxes: [box('encoder', 'encoder', null), box('decoder', 'decoder', null)], model: { settings: {} } } as unknown as SeenRecord;
    expect(diagram(other, 0).frames).toEqual([]);
  });
});
