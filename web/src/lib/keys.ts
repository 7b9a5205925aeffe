import type { Side } from '../data/record';
import { type Selected, VIEWS } from './selection.svelte';

export const KEYS: [string, string][] = [
  ['← →', 'the token before, the token after'],
  ['↑ ↓', 'the head before, the head after'],
  ['[ ]', 'the layer before, the layer after'],
  ['a', 'all heads'],
  ['e d c', 'encoder, decoder, cross-attention'],
  [`1 – ${VIEWS.length}`, 'the views'],
  ['Esc', 'no token; close this list'],
  ['?', 'this list'],
];

/** The selection after a key; null: it has no meaning. */
export function move(key: string, now: Selected): Selected | null {
  const sides: { [key: string]: Side } = { e: 'encoder', d: 'decoder', c: 'cross' };
  if (key in sides) return { ...now, side: sides[key] };
  const number = Number(key);
  if (number >= 1 && number <= VIEWS.length) return { ...now, view: VIEWS[number - 1] };
  switch (key) {
    case 'ArrowLeft':
      return { ...now, token: Math.max(0, now.token - 1) };
    case 'ArrowRight':
      return { ...now, token: now.token + 1 };
    case 'ArrowUp':
      return { ...now, head: Math.max(-1, now.head - 1) };
    case 'ArrowDown':
      return { ...now, head: now.head + 1 };
    case '[':
      return { ...now, layer: Math.max(0, now.layer - 1) };
    case ']':
      return { ...now, layer: now.layer + 1 };
    case 'a':
      return { ...now, head: -1 };
    default:
      return null;
  }
}
