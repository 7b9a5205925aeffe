// The language of the interface. English words stand in the sources; other languages map them.
import { CHINESE } from './chinese';

export type InterfaceLanguage = 'en' | 'zh';

class Words {
  now: InterfaceLanguage = $state('en');
}

export const language = new Words();

/** A text of the interface, with {names} replaced. */
export function t(text: string, values: Record<string, string | number> = {}): string {
  const found = language.now === 'zh' ? (CHINESE[text] ?? text) : text;
  return found.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole));
}

/** Parts of a phrase beside each other: "layer 2, head 3". */
export function listed(...parts: string[]): string {
  return parts.join(language.now === 'zh' ? '，' : ', ');
}

/** The name of a language in the language of the interface; `english` is what the server calls it. */
export function languageName(code: string, english: string): string {
  if (language.now === 'en') return english;
  try {
    return new Intl.DisplayNames('zh-Hans', { type: 'language', fallback: 'none' }).of(code) ?? english;
  } catch {
    return english;
  }
}
