import type { Client, TranslateRequest, Translation } from './api';
import { type Unit, units } from './units';

/** A word that could stand at a place, and what would follow it. */
export interface Choice {
  word: string;
  rest: string;
  /** p of the word after what stands before it. */
  probability: number;
  /** The tokens up to and with the word. */
  begin: string[];
  /** Whether it is the one that stands there. */
  taken: boolean;
}

const CANDIDATES = 12;
const SHOWN = 8;
const END = '</s>';

/** Best first; none for a model that does not write from left to right. */
export async function alternatives(
  client: Client,
  request: TranslateRequest,
  answer: Translation,
  unit: Unit,
  signal: AbortSignal,
): Promise<Choice[]> {
  const plain = { texts: request.texts, model: request.model };
  const seen = await client.translate({ ...plain, prefix_tokens: [answer.tokens], likely: CANDIDATES, search: { kind: 'greedy' } }, signal);
  const likely = seen.translations[0].likely?.[unit.from] ?? [];
  if (!likely.length) return [];
  const before = answer.tokens.slice(0, unit.from);
  const begun = likely.map(({ token }) => [...before, token]);
  const search = request.search ? { search: request.search } : {};
  const texts = begun.map(() => request.texts[0]);
  const found = await client.translate({ ...plain, texts, prefix_tokens: begun, ...search }, signal);
  const here = answer.text.slice(unit.start, unit.end);
  const choices = found.translations.map((one, i) => choice(one, unit.from, likely[i], here));
  return distinct(choices).slice(0, SHOWN);
}

/** The word that begins with a candidate, in the output that was completed from it. */
export function choice(one: Translation, from: number, first: { token: string; probability: number }, here: string): Choice {
  const own = units(one.tokens, one.text);
  const unit = own.find((each) => each.to > from);
  if (first.token === END || !unit) return { word: '', rest: '', probability: first.probability, begin: [...one.tokens.slice(0, from), first.token], taken: false };
  const after = one.token_scores.slice(from + 1, unit.to).reduce((sum, each) => sum + each, 0);
  const word = one.text.slice(unit.start, unit.end);
  return {
    word,
    rest: one.text.slice(unit.end),
    probability: first.probability * Math.exp(after),
    begin: one.tokens.slice(0, unit.to),
    taken: word === here,
  };
}

/** Each word once, in its most probable spelling. */
export function distinct(choices: Choice[]): Choice[] {
  const best = new Map<string, Choice>();
  for (const each of [...choices].sort((a, b) => b.probability - a.probability)) if (!best.has(each.word)) best.set(each.word, each);
  return [...best.values()];
}
