// The address of what is on the screen. It stands behind #, which browsers do not send to the server.
import { type Selected, parsed, written } from '../lib/selection.svelte';
import type { Settings } from './settings';

export interface Shown {
  text: string;
  outputs: number;
  columns: { model: string; search: Settings; begin: string[] }[];
  selected: Selected;
}

const MOST_TEXT = 5000;
const MOST_TOKENS = 600;

function object(text: string | null): Settings {
  try {
    const found: unknown = JSON.parse(text ?? '{}');
    return typeof found === 'object' && found !== null && !Array.isArray(found) ? (found as Settings) : {};
  } catch {
    return {};
  }
}

function tokens(text: string | null): string[] {
  try {
    const found: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(found) && found.length <= MOST_TOKENS && found.every((each) => typeof each === 'string') ? found : [];
  } catch {
    return [];
  }
}

export function toAddress(shown: Shown): string {
  const made = new URLSearchParams();
  shown.columns.forEach(({ model, search, begin }, i) => {
    const number = i ? String(i + 1) : '';
    made.set(`model${number}`, model);
    if (Object.keys(search).length) made.set(`search${number}`, JSON.stringify(search));
    if (begin.length) made.set(`begin${number}`, JSON.stringify(begin));
  });
  if (shown.outputs !== 3) made.set('outputs', String(shown.outputs));
  if (shown.text) made.set('text', shown.text);
  return `${written(shown.selected)}&${made}`;
}

/** What an address says; the models may be unknown here, and the settings nonsense: who uses them checks. */
export function fromAddress(hash: string, before: Selected): Shown {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const column = (number: string) => ({
    model: given.get(`model${number}`)?.slice(0, 64) ?? '',
    search: object(given.get(`search${number}`)),
    begin: tokens(given.get(`begin${number}`)),
  });
  const outputs = Number(given.get('outputs') ?? 3);
  return {
    text: given.get('text')?.slice(0, MOST_TEXT) ?? '',
    outputs: [1, 2, 3, 4, 5].includes(outputs) ? outputs : 3,
    columns: given.has('model2') ? [column(''), column('2')] : [column('')],
    selected: parsed(hash, before),
  };
}
