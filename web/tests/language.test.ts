import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CHINESE } from '../src/lib/chinese';
import { KEYS } from '../src/lib/keys';
import { language, languageName, t } from '../src/lib/language.svelte';
import { SIDE_NAMES, TITLES } from '../src/lib/selection.svelte';
import { PAGE_KEYS } from '../src/live/keys';
import { SEARCHES, SLIDERS } from '../src/live/settings';
import { SAID } from '../src/live/troubles';

const root = new URL('../src/', import.meta.url).pathname;

/** Every text that the sources translate: where it is used, and in tables. */
function used(): Set<string> {
  const tables = [Object.values(SAID), Object.values(TITLES), Object.values(SIDE_NAMES), Object.values(SEARCHES).flat(), [...KEYS, ...PAGE_KEYS].map(([, meaning]) => meaning)];
  const sliders = Object.values(SLIDERS).flatMap((list) => list.flatMap(({ title, about }) => [title, about]));
  const found = new Set<string>([...tables.flat(), ...sliders]);
  for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => /\.(svelte|ts)$/.test(name))) {
    const source = readFileSync(root + file, 'utf8');
    for (const [, quote, text] of source.matchAll(/\bt\((['"])((?:\\.|(?!\1).)*)\1/g)) found.add(text.replaceAll(`\\${quote}`, quote));
  }
  return found;
}

describe('the Chinese interface', () => {
  it('has every text of the English one', () => {
    expect(used().size).toBeGreaterThan(40);
    expect([...used()].filter((text) => !(text in CHINESE))).toEqual([]);
  });
  it('keeps the values of a text', () => {
    for (const [english, chinese] of Object.entries(CHINESE)) expect(chinese.match(/\{\w+\}/g)?.sort() ?? [], english).toEqual(english.match(/\{\w+\}/g)?.sort() ?? []);
    language.now = 'zh';
    expect(t('Trying again in {n} s.', { n: 3 })).toContain('3');
    expect(languageName('es', 'Spanish')).toBe('西班牙语');
    expect(languageName('not a code', 'Klingon')).toBe('Klingon');
    language.now = 'en';
    expect(languageName('es', 'Spanish')).toBe('Spanish');
  });
});
