// What is selected: one selection for all views, kept in the address so that a link shows the same.
import { type SeenRecord, type Side, SIDES, layersOf, labelsOf, sidesOf } from '../data/record';
import { clamp } from './numbers';

export const VIEWS = ['heads', 'model', 'matrix', 'equation', 'decoding', 'architecture', 'positions'] as const;
export type View = (typeof VIEWS)[number];
export const TITLES: Record<View, string> = {
  heads: 'Heads',
  model: 'Model',
  matrix: 'Matrix',
  equation: 'Equation',
  decoding: 'Decoding',
  architecture: 'Architecture',
  positions: 'Positions',
};

export const SIDE_NAMES: Record<Side, string> = { encoder: 'Encoder', decoder: 'Decoder', cross: 'Cross' };

/** auto: what the system prefers. */
export type Theme = 'auto' | 'light' | 'dark';

export interface Selected {
  view: View;
  side: Side;
  layer: number;
  /** -1: all heads. */
  head: number;
  /** The query; -1: none. */
  token: number;
}

export const START: Selected = { view: 'heads', side: 'cross', layer: 0, head: -1, token: -1 };

export function written(selected: Selected): string {
  const { view, side, layer, head, token } = selected;
  const all = { view, side, layer: layer + 1, head: head < 0 ? 'all' : head + 1, token: token < 0 ? 'none' : token + 1 };
  return Object.entries(all)
    .map(([key, value]) => `${key}=${value}`)
    .join('&');
}

/** From an address; what makes no sense is left as it was. */
export function parsed(hash: string, before: Selected): Selected {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const number = (key: string, none: string, old: number) => {
    const text = given.get(key);
    if (text === none) return -1;
    return text && /^\d{1,4}$/.test(text) ? Number(text) - 1 : old;
  };
  const view = given.get('view') as View;
  const side = given.get('side') as Side;
  return {
    view: VIEWS.includes(view) ? view : before.view,
    side: SIDES.includes(side) ? side : before.side,
    layer: Math.max(0, number('layer', '', before.layer)),
    head: number('head', 'all', before.head),
    token: number('token', 'none', before.token),
  };
}

/** Within what a record has. */
export function fitted(selected: Selected, record: SeenRecord): Selected {
  const sides = sidesOf(record);
  const side = sides.includes(selected.side) ? selected.side : (sides.at(-1) ?? 'cross');
  const layers = layersOf(record, side);
  const layer = clamp(selected.layer, 0, Math.max(0, layers.length - 1));
  const heads = layers[layer]?.weights.shape[0] ?? 1;
  const tokens = labelsOf(record, side).rows.length;
  return {
    ...selected,
    side,
    layer,
    head: clamp(selected.head, -1, heads - 1),
    token: clamp(selected.token, -1, tokens - 1),
  };
}

class Selection {
  now: Selected = $state({ ...START });
  dark = $state(false);

  change(part: Partial<Selected>): void {
    this.now = { ...this.now, ...part };
  }
}

export const selection = new Selection();
