import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CHINESE } from '../src/lib/chinese';
import { KEYS } from '../src/lib/keys';
import { language, languageName, t } from '../src/lib/language.svelte';
import { SIDE_NAMES, TITLES } from '../src/lib/selection.svelte';
import { PAGE_KEYS } from '../src/live/keys';
import { SEARCHES, SLIDERS } from '../src/live/settings';
import { SAID } from '../src/live/troubles';
import { said, saidBy } from './sources';

/** Texts that are translated from tables. */
const TABLES = [
  ...[SAID, TITLES, SIDE_NAMES].flatMap((table) => Object.values<string>(table)),
  ...Object.values(SEARCHES).flat(),
  ...[...KEYS, ...PAGE_KEYS].map(([, meaning]) => meaning),
  ...Object.values(SLIDERS).flatMap((list) => list.flatMap(({ title, about }) => [title, about])),
  ...['encoder', 'decoder', 'output', 'self-attention', 'cross-attention', 'feed-forward'],
  ...['Encoder self-attention', 'Decoder self-attention', 'Cross-attention'],
];
const ALL = said();
const { record } = JSON.parse(readFileSync(new URL('../../qkv/serving/page/example.json', import.meta.url), 'utf8'));
const missing = (texts: Iterable<string>) => [...texts].filter((text) => !(text in CHINESE));

describe('the Chinese interface', () => {
  it('has every text of the English one', () => {
    expect(ALL.translated.size).toBeGreaterThan(200);
    expect(missing([...ALL.translated, ...TABLES])).toEqual([]);
  });
  it('is asked for wherever a component says something', () => {
    expect(ALL.forgotten).toEqual([]);
    const wrong = saidBy(`<p title="A title" class="one two">Words <i>q</i> {a ? 'more words' : t('said')} <Sentence text={'of {it}'}>softmax</Sentence></p>`);
    expect(wrong.forgotten.map((text) => text.trim())).toEqual(['A title', 'Words', 'more words']);
    expect([...wrong.translated]).toEqual(['said', 'of {it}']);
  });
  it('has what a model of the package says about its parts', () => {
    const boxes = record.boxes as { title: string; equation: string; shapes: [string, string][] }[];
    const prose = boxes.map(({ equation }) => equation).filter((text) => /[a-z]{3,} [a-z]{3,}/.test(text));
    const shapes = boxes.flatMap((box) => box.shapes.map(([what]) => what)).filter((what) => !/[._]/.test(what));
    expect(missing(new Set([...boxes.map(({ title }) => title), ...prose, ...shapes]))).toEqual([]);
  });
  it('has nothing that no page says', () => {
    const told = new Set([...ALL.translated, ...TABLES, ...JSON.stringify(record.boxes).split('"')]);
    expect(Object.keys(CHINESE).filter((text) => !told.has(text))).toEqual([]);
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
