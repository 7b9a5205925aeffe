import { describe, expect, it } from 'vitest';
import { direction } from '../src/lib/direction';
import { move } from '../src/lib/keys';
import { START, parsed, written } from '../src/lib/selection.svelte';

describe('the address', () => {
  it('comes back', () => {
    const selected = { view: 'equation', side: 'decoder', layer: 2, head: 3, token: 4 } as const;
    expect(parsed(`#${written(selected)}`, START)).toEqual(selected);
    expect(parsed(`#${written(START)}`, { ...START, head: 5, token: 5 })).toEqual(START);
  });
  it('ignores what makes no sense', () => {
    for (const hash of ['', '#', '#view=<script>&side=x&layer=-4&head=1e9&token=NaN', '#%00', '#view=__proto__'])
      expect(parsed(hash, START)).toEqual(START);
  });
});

describe('keys', () => {
  it('move tokens, heads and layers', () => {
    expect(move('ArrowRight', START)?.token).toBe(0);
    expect(move('ArrowDown', START)?.head).toBe(0);
    expect(move('ArrowUp', { ...START, head: 0 })?.head).toBe(-1);
    expect(move(']', START)?.layer).toBe(1);
    expect(move('[', START)?.layer).toBe(0);
    expect(move('e', START)?.side).toBe('encoder');
    expect(move('3', START)?.view).toBe('matrix');
    expect(move('x', START)).toBeNull();
    expect(move('8', START)).toBeNull();
  });
});

describe('direction', () => {
  it('is that of the first letter', () => {
    expect(['abc', '12 مرحبا abc', '«שלום»', 'क्षि', '', '...'].map(direction)).toEqual(['ltr', 'rtl', 'rtl', 'ltr', 'ltr', 'ltr']);
  });
});
