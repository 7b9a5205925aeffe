// The diagram of the paper, drawn from the boxes of a model: one layer of each stack, the encoder left.
import type { Box, SeenRecord } from '../data/record';
import { t } from './language.svelte';

export interface Placed {
  box: Box;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Arrow {
  points: [number, number][];
  dashed?: boolean;
}

export interface Frame {
  x: number;
  y: number;
  width: number;
  height: number;
  label: string;
}

export interface Diagram {
  width: number;
  height: number;
  placed: Placed[];
  arrows: Arrow[];
  frames: Frame[];
  texts: { x: number; y: number; text: string }[];
}

const BOX = { width: 190, height: 34 };
const NORM = 24;
const GAP = 14;
const MARGIN = 30;
const BETWEEN = 84;

function heightOf(box: Box): number {
  return box.name.endsWith('residual') ? NORM : BOX.height;
}

/** The order in which a layer computes: each sublayer, then its residual connection. */
export function inOrder(boxes: Box[]): Box[] {
  const part = (box: Box) => box.name.split('.').at(-1) ?? '';
  const order = ['attention', 'attention_residual', 'cross_attention', 'cross_residual', 'feed_forward', 'feed_forward_residual'];
  return [...boxes].sort((a, b) => order.indexOf(part(a)) - order.indexOf(part(b)));
}

export function layersIn(record: SeenRecord, column: 'encoder' | 'decoder'): number {
  const own = Number(record.model.settings[`${column}_layers`] ?? 0);
  const distinct = new Set(record.boxes.filter((box) => box.column === column && box.layer !== null).map((box) => box.layer)).size;
  return own || distinct;
}

/** Bottom up, as in the paper; `layer` of each stack is drawn, or its last one. */
export function diagram(record: SeenRecord, layer: number): Diagram {
  const columns = (['encoder', 'decoder'] as const).map((column) => {
    const own = record.boxes.filter((box) => box.column === column);
    const distinct = new Set(own.map((box) => box.layer).filter((each) => each !== null)).size;
    const shown = distinct ? layer % distinct : -1;
    return {
      column,
      before: own.filter((box) => box.layer === null),
      layer: inOrder(own.filter((box) => box.layer === shown)),
      times: layersIn(record, column),
      number: Math.min(layer, Math.max(0, layersIn(record, column) - 1)) + 1,
    };
  });
  const stack = (boxes: Box[]) => boxes.reduce((sum, box) => sum + heightOf(box) + GAP, 0);
  const above = record.boxes.filter((box) => box.column === 'output');
  const tallest = Math.max(...columns.map((each) => stack(each.before) + stack(each.layer) + 3 * GAP));
  const height = tallest + stack(above) + 2 * MARGIN + 24;
  const width = 2 * BOX.width + BETWEEN + 2 * MARGIN + 56;
  const made: Diagram = { width, height, placed: [], arrows: [], frames: [], texts: [] };
  const base = height - MARGIN - 8;

  columns.forEach((each, i) => {
    const x = MARGIN + 28 + i * (BOX.width + BETWEEN);
    const middle = x + BOX.width / 2;
    let y = base;
    made.texts.push({ x: middle, y: base + 22, text: i === 0 ? t('source tokens') : t('output so far') });
    let last = base + 8;
    const put = (box: Box) => {
      y -= heightOf(box);
      made.arrows.push({ points: [[middle, last], [middle, y + heightOf(box)]] });
      made.placed.push({ box, x, y, width: BOX.width, height: heightOf(box) });
      last = y;
      y -= GAP;
    };
    each.before.forEach(put);
    if (each.layer.length) {
      y -= GAP;
      const bottom = y + GAP / 2;
      let from = last;
      each.layer.forEach((box) => {
        put(box);
        if (box.name.endsWith('residual')) {
          // The residual connection goes around the sublayer.
          const side = x - 16;
          const to = y + GAP + NORM / 2;
          made.arrows.push({ points: [[middle, from - 5], [side, from - 5], [side, to], [x, to]], dashed: true });
          from = last;
        }
      });
      made.frames.push({ x: x - 26, y: y + GAP / 2, width: BOX.width + 40, height: bottom - y - GAP / 2, label: t('layer {n} of {m}', { n: each.number, m: each.times }) });
      y -= GAP;
    }
    if (i === 0) {
      // The memory, which cross-attention reads.
      made.arrows.push({ points: [[middle, last], [middle, y], [x + BOX.width + BETWEEN / 2 - 8, y]] });
    } else {
      above.forEach(put);
      made.arrows.push({ points: [[middle, last], [middle, last - 14]] });
      made.texts.push({ x: middle, y: last - 20, text: t('probabilities') });
    }
  });
  const cross = made.placed.find((each) => each.box.name.endsWith('cross_attention'));
  const memory = made.arrows.find((each) => each.points.length === 3);
  if (cross && memory) {
    const [x] = memory.points[2];
    const y = cross.y + cross.height / 2;
    memory.points.push([x, y], [cross.x, y]);
  }
  return made;
}
