// What was translated before, in this browser only.
import { forget, keep, kept } from './store';

export interface Past {
  text: string;
  output: string;
  model: string;
  /** Milliseconds since 1970. */
  at: number;
}

const NAME = 'history';
const MOST = 50;

function isPast(found: unknown): found is Past[] {
  return (
    Array.isArray(found) &&
    found.every((each) => typeof each?.text === 'string' && typeof each.output === 'string' && typeof each.model === 'string' && typeof each.at === 'number')
  );
}

export function past(): Past[] {
  return kept(NAME, [], isPast);
}

/** The newest first. A text that goes on where the last one ended takes its place. */
export function added(list: Past[], one: Past): Past[] {
  const [last] = list;
  const goesOn = last && last.model === one.model && one.at - last.at < 60_000 && (one.text.startsWith(last.text) || last.text.startsWith(one.text));
  const rest = (goesOn ? list.slice(1) : list).filter((each) => each.text !== one.text || each.model !== one.model);
  return [one, ...rest].slice(0, MOST);
}

export function remember(one: Past): Past[] {
  const list = added(past(), one);
  keep(NAME, list);
  return list;
}

export function forgetAll(): void {
  forget(NAME);
}
